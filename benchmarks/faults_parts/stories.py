"""What users do while a fault strikes. Every story ends when each of its tasks has its one result, whatever happened."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable

from faults_parts import saved
from faults_parts.teller import PODS_MAX, Teller
from shared.task import Close, Command, Open


async def plain(teller: Teller) -> None:
    """A session with four tasks: released, woken, one cancelled, one slow. One-shots beside it, good and bad."""
    await asyncio.gather(_session(teller), _one_shots(teller))


async def _session(teller: Teller) -> None:
    await teller.first("s", Open(keep=True))
    await teller.next("s", "s1", teller.line())
    await teller.asleep("s", before="s2")
    await teller.next("s", "s2", teller.line())
    await teller.cancelled("s", "s3", teller.line("sleep 30"))
    await teller.next("s", "s4", teller.line("sleep 1.2"))
    await teller.cancel("s", "s5")
    await teller.next("s", "s5", teller.line(), "cancelled")


async def _one_shots(teller: Teller) -> None:
    await teller.first("a", teller.line())
    await teller.next("a", "a1", teller.line(), "rejected")
    await teller.cancel("b")
    await teller.first("b", teller.line(), "cancelled")
    await teller.garbage("c")
    early = asyncio.create_task(teller.next("d", "d1", Close()))
    await asyncio.sleep(0.1)
    await teller.first("d", Open(keep=True))
    await early


async def crowd(teller: Teller) -> None:
    """More one-shots at once than there are workers."""
    waits = [teller.first(f"crowd{n}", teller.line("sleep 0.6")) for n in range(8)]
    await asyncio.gather(*waits)


async def overdue(teller: Teller) -> None:
    """A one-shot whose deadline passes while all workers are busy: they are until it has its end."""
    working = await teller.busy("busy", PODS_MAX, teller.line("sleep 60"))
    late = Command(shell="true", deadline_s=1.0)
    await teller.first("late", late, "expired")
    await asyncio.gather(*map(teller.let_go, working))


async def on_demand(teller: Teller) -> None:
    """One-shots in a pool without stock."""
    await asyncio.gather(*(teller.first(f"cold{n}", teller.line()) for n in range(2)))


async def spare(teller: Teller) -> None:
    """A one-shot in a pool without stock is cancelled before it comes: its pod is for nothing."""
    await teller.cancel("b")
    await teller.first("b", teller.line(), "cancelled")


async def poison(teller: Teller) -> None:
    """A one-shot whose worker dies three times."""
    await teller.first("p", teller.line(), "poison")


async def rest(teller: Teller) -> None:
    """A session that sleeps until its inbox was tidied, and works again."""
    await teller.first("s", Open(keep=True))
    await teller.next("s", "s1", teller.line())
    await teller.asleep("s", before="s2")
    await asyncio.sleep(11.0)
    await teller.next("s", "s2", teller.line())


async def race(teller: Teller) -> None:
    """The next task arrives while its session is being given up."""
    await teller.first("s", Open(keep=True))
    await teller.sign()
    await teller.next("s", "s1", teller.line())


async def race_leaving(teller: Teller) -> None:
    """The same, and the worker is asked to leave."""
    await teller.first("s", Open(keep=True))
    pid = await teller.sign()
    if pid is not None:
        os.kill(pid, signal.SIGTERM)
    await teller.next("s", "s1", teller.line())


QUIET_S = {"rest": 11.0}
"""Longest time in which nothing happens in a story, by its own doing."""
COLD = frozenset({"on_demand", "deaf", "spare"})
"""Stories of a pool without stock."""
STORIES: dict[str, Callable[[Teller], Awaitable[None]]] = {
    "plain": plain,
    "later": plain,
    "kept": plain,
    "restart": plain,
    "deaf": on_demand,
    "spare": spare,
    "crowd": crowd,
    "overdue": overdue,
    "on_demand": on_demand,
    "poison": poison,
    "rest": rest,
    "race": race,
    "race_leaving": race_leaving,
    "resumed": saved.resumed,
    "resumed_first": saved.resumed_first,
    "rolled_back": saved.rolled_back,
    "forked": saved.forked,
    "deleted": saved.deleted,
    "collected": saved.collected,
}
