"""Snapshots of a workspace, on each way to a cluster: two states of one session, gone back to, forked, compared, slept over."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from agent_sandbox import NotFound, Rejected, TaskFailed


async def all_of(found: Any) -> list[Any]:
    """Return what an iterator yields, with an event loop or without."""
    return [row async for row in found]


async def test_a_workspace_goes_back_forks_and_sleeps(caller: Any) -> None:
    """Each verb does what it says, and what it can't do it names; nothing is lost on the way."""
    async with await caller.create_session() as session:
        await session.exec("echo 1 > figures; mkdir plots; echo a > plots/a")
        first = (await session.snapshots())[0]
        named = await session.name_snapshot(first.id[:8], "before")
        await session.exec("echo 22 > figures; rm -r plots; echo new > notes")
        changes = await all_of(session.diff("before"))

        fork_id = str(uuid.uuid4())
        fork = await session.fork("before", session_id=fork_id)
        same = await session.fork("before", session_id=fork_id)
        forked = await fork.exec("cat figures plots/a; echo 3 > figures")
        assert (await session.exec("cat figures")).stdout == "22\n"

        await session.rollback("before")
        back = await session.exec("cat figures; ls")
        slept = await session.hibernate()
        again = await session.hibernate()
        asleep = (await session.show()).record
        woken = await session.resume()
        kept = await session.exec("cat figures")
        rows = {row.name: row for row in await session.snapshots()}

        with pytest.raises(TaskFailed, match="never") as failed:
            await session.rollback("never")
        with pytest.raises(NotFound, match="never"):
            await session.name_snapshot("never", "x")
        with pytest.raises(Rejected):
            await session.fork(session_id=session.id)
        await fork.close()

    assert (first.head, named.name) == ("boundary", "before")
    assert {(row.path, row.change, row.size_before, row.size_after) for row in changes} == {
        ("figures", "changed", 2, 3),
        ("plots", "removed", 0, 0),
        ("plots/a", "removed", 2, 0),
        ("notes", "added", 0, 4),
    }
    assert (fork.id, same.id) == (fork_id, fork_id)
    assert forked.stdout == "1\na\n"
    assert back.stdout.split() == ["1", "figures", "plots"]
    assert (slept.ok, again) == (True, None)
    assert (asleep.state, asleep.owner) == ("idle", None)
    assert woken.raw.timing.restored_ms > 0
    assert kept.stdout == "1\n"
    assert rows["before"].forks == 1
    assert failed.value.result.reason == "no_snapshot"


async def test_what_is_another_s_is_not_known(caller: Any) -> None:
    """A session that is not there, to this tenant at least: each question says so, none hangs."""
    stranger = caller.session("no-such-session")
    for ask in (stranger.snapshots, stranger.hibernate, stranger.fork):
        with pytest.raises(NotFound):
            await ask()
    with pytest.raises(NotFound):
        await all_of(stranger.diff("before"))
