"""A session that waits for its files: how a wait ends, and what becomes of the session then."""

from __future__ import annotations

import asyncio

from holding import FakeTruth, body, owned

from worker_agent.loops.commit import Committer
from worker_agent.loops.waiting import Waiting
from worker_agent.ports import Held


def waits() -> tuple[Waiting, Held, FakeTruth]:
    """Return a session's waits, the session, and where its record is."""
    truth = FakeTruth()
    held = owned(truth, body(keep=True))
    return Waiting(Committer(truth, give_up_s=5.0)), held, truth


async def test_a_pause_that_nothing_ends_is_over_when_its_time_is() -> None:
    """What is waited for is tried again then, until the task is late."""
    waiting, held, truth = waits()

    waiting.begin(60.0)
    assert await waiting.pause(held, 0.01) is None
    waiting.begin(0.01)
    assert await waiting.pause(held, 60.0) == "late"
    assert truth.record.state == "running"


async def test_a_cancel_ends_the_wait_of_the_task_in_hand_alone() -> None:
    """The session stays; the next task waits as long as it may."""
    waiting, held, truth = waits()
    waiting.begin(60.0)
    pausing = asyncio.ensure_future(waiting.pause(held, 60.0))
    await asyncio.sleep(0)
    waiting.cancel()

    assert await pausing == "cancelled"
    assert truth.record.state == "running"
    waiting.begin(60.0)
    assert await waiting.pause(held, 0.01) is None


async def test_a_worker_that_is_to_leave_waits_for_no_task_any_more() -> None:
    """The session is given back at once, for the next one as well that begins to wait."""
    for is_told_first in (True, False):
        waiting, held, truth = waits()
        if is_told_first:
            waiting.leave()
        waiting.begin(60.0)
        pausing = asyncio.ensure_future(waiting.pause(held, 60.0))
        if not is_told_first:
            await asyncio.sleep(0)
            waiting.leave()

        async with asyncio.timeout(20):
            assert await pausing == "given_back"
        assert (truth.record.state, truth.record.owner) == ("waiting", None)
