"""Stories of sessions' files: saved, rescued, gone back to, forked, collected and deleted.

What stands in a journal is judged with all others (`shared.testing.checker`); what a story looks at itself fails its task.
"""

from __future__ import annotations

from faults_parts.teller import Teller
from faults_parts.waiting import insist, wait_for
from shared.task import Close, Command, Open, Rollback

COLLECTED_AFTER = 19
"""Tasks: ten of their snapshots stay, and eight that may go make a collection worth its while."""
KEPT_MAX = 11
"""Snapshots of the last ten tasks, and perhaps one for the hour."""
COLLECTED_WITHIN_S = 15.0
ONCE = 'grep -qsx "$AGENT_SANDBOX_TASK" journal || echo "$AGENT_SANDBOX_TASK" >> journal; cat journal; '


def figure(number: int) -> Command:
    """Return a task that leaves a figure behind, and says nothing."""
    return Command(shell=f"echo {number} > figure", keep=False)


def finds(number: int) -> Command:
    """Return a task that fails where it does not find that figure."""
    return Command(shell=f"grep -qx {number} figure", keep=False)


async def resumed(teller: Teller) -> None:
    """A task that goes on where it was, if its worker dies: its line is there once, and so is what came before it."""
    await teller.first("s", Open(keep=True))
    await teller.next("s", "s1", Command(shell=ONCE, keep=False, on_interrupt="resume"))
    await teller.next("s", "s2", teller.line())


async def resumed_first(teller: Teller) -> None:
    """The same of a session's first task."""
    await teller.first("s", Command(shell=ONCE, keep=True, on_interrupt="resume"))
    await teller.next("s", "s1", teller.line())


async def rolled_back(teller: Teller) -> None:
    """A session goes back to a snapshot that has a name; where it can't, it stays as it is."""
    await teller.first("s", Open(keep=True))
    await teller.next("s", "s1", figure(1))
    await insist(lambda: _name(teller, "one"))
    await teller.next("s", "s2", figure(2))
    back = await teller.next("s", "s3", Rollback(snapshot="one"), "ok", "failed")
    await teller.next("s", "s4", finds(1 if back.ok else 2))


async def forked(teller: Teller) -> None:
    """A session goes two ways from a snapshot that has a name; what differs is asked for."""
    await teller.first("s", Open(keep=True))
    await teller.next("s", "s1", teller.line("echo 1 > figure"))
    await insist(lambda: _name(teller, "one"))
    await teller.next("s", "s2", teller.line("echo 2 > figure"))
    changed = await insist(lambda: _changed(teller, "one"))
    await teller.fork("f", "s", "one")
    await teller.next("f", "f1", teller.line("grep -qx 1 figure"))
    await teller.next("s", "s3", teller.line("grep -qx 2 figure"))
    if changed != {"figure", "journal"}:
        raise AssertionError(f"figure and journal differ; said was {changed}")


async def deleted(teller: Teller) -> None:
    """A session ends, and lives on in its fork; then that ends, too, and nothing may be left of both."""
    await teller.first("s", Open(keep=True))
    await teller.next("s", "s1", figure(1))
    await insist(lambda: _name(teller, "one"))
    await teller.next("s", "s2", figure(2))
    await teller.fork("f", "s", "one")
    await teller.next("s", "s3", Close())
    await teller.next("f", "f1", finds(1))
    await teller.next("f", "f2", Close())


async def collected(teller: Teller) -> None:
    """A session leaves more snapshots than are kept; when those are gone it goes on elsewhere, with all its files."""
    await teller.first("s", Open(keep=True))
    for number in range(COLLECTED_AFTER):
        await teller.next("s", f"s{number}", figure(number))

    async def is_collected() -> bool:
        kept = await insist(lambda: teller.session("s").snapshots())
        return len(kept) <= KEPT_MAX

    await wait_for(is_collected, within_s=COLLECTED_WITHIN_S)
    await teller.asleep("s", before="last")
    await teller.next("s", "last", finds(COLLECTED_AFTER - 1))


async def _name(teller: Teller, name: str) -> None:
    """Name the newest snapshot, unless the story was told so far already."""
    known = await teller.session("s").snapshots()
    if name not in {one.name for one in known}:
        await teller.session("s").name_snapshot(known[0].id, name)


async def _changed(teller: Teller, since: str) -> set[str]:
    return {one.path async for one in teller.session("s").diff(since)}
