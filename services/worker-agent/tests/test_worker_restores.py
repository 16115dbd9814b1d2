"""What is in the way of a restore, and what becomes of the session then."""

from __future__ import annotations

import asyncio
import time

import msgspec
import pytest
from checkpointing import (
    FIRST,
    Place,
    claimed,
    kept_session,
    writes,
)  # fmt: skip
from holding import SESSION, entry

from shared import task, transitions
from shared.errors import Damaged, NotFound, Unavailable
from shared.testing.wait import until


async def saved_session(place: Place) -> None:
    """Leave an idle session with a boundary."""
    pod = place.new_pod()
    pod.sandbox.programs = {SESSION: writes("one")}
    await pod.hold(place.truth, kept_session(place.truth))
    place.truth.inbox = [entry(1)]


async def test_it_waits_for_the_store_and_says_so(place: Place) -> None:
    """`restoring`, with reason; then the task runs."""
    await saved_session(place)
    truth, pod = place.truth, place.new_pod()
    place.store.fault = Unavailable("the store does not answer")
    woken = transitions.wake(truth.record, lane="batch")
    holding = asyncio.ensure_future(pod.hold(truth, claimed(truth, woken)))
    await until(lambda: pod.says[1] != "")
    assert pod.says == ("restoring", "the store does not answer")
    assert FIRST not in truth.results
    place.store.fault = None
    await holding

    assert truth.results[FIRST].status == "ok"
    assert pod.sandbox.journal() == ["one"]


async def test_a_worker_that_is_to_leave_gives_the_session_back(place: Place) -> None:
    """Another one waits for the store in its place; nothing is saved over the boundary."""
    await saved_session(place)
    truth, pod = place.truth, place.new_pod()
    boundary = truth.record.boundary
    place.store.fault = Unavailable("the store does not answer")
    woken = transitions.wake(truth.record, lane="batch")
    holding = asyncio.ensure_future(pod.hold(truth, claimed(truth, woken)))
    await until(lambda: pod.says[1] != "")
    pod.leave()
    await holding

    assert (truth.record.state, truth.record.boundary) == ("waiting", boundary)
    assert (FIRST in truth.results, pod.mark()) == (False, None)


async def test_a_boundary_that_is_missing_once_is_looked_for_again(place: Place) -> None:
    """A read that went wrong costs a moment, not the session's files."""
    await saved_session(place)
    truth, pod = place.truth, place.new_pod()
    place.store.fault = NotFound("there is no such pack")
    woken = transitions.wake(truth.record, lane="batch")
    holding = asyncio.ensure_future(pod.hold(truth, claimed(truth, woken)))
    await until(lambda: pod.says[1] != "" or holding.done())
    place.store.fault = None
    await holding

    assert (truth.results[FIRST].status, truth.record.losses) == ("ok", 0)
    assert pod.sandbox.journal() == ["one"]


@pytest.mark.parametrize("why", [None, Damaged("frame 3 is not what was written")])
async def test_a_boundary_that_is_gone_is_told_and_never_replaced_in_silence(
    place: Place, why: Damaged | None
) -> None:
    """Its packs are missing, or damaged. This pod runs nothing; the next one begins empty and says what was lost."""
    await saved_session(place)
    truth, pod = place.truth, place.new_pod()
    place.store.snapshots.clear()
    place.store.fault = why
    woken = transitions.wake(truth.record, lane="batch")
    await pod.hold(truth, claimed(truth, woken))
    assert (truth.record.state, truth.record.losses) == ("waiting", 1)
    assert FIRST not in truth.results

    after, place.store.fault = place.new_pod(), None
    again = transitions.wake(truth.record, lane="batch")
    await after.hold(truth, claimed(truth, again))

    lost = truth.results[FIRST].workspace_lost
    assert lost is not None
    assert (lost.cause, lost.back_to_ms) == ("snapshot_lost", 0)


async def test_a_task_past_its_deadline_waits_no_longer(place: Place) -> None:
    """It expires, and the boundary stays."""
    await saved_session(place)
    truth, pod = place.truth, place.new_pod()
    boundary = truth.record.boundary
    due = task.encode_task(task.Command(argv=("true",), deadline_s=0.3))
    now = msgspec.structs.replace(entry(1), body=due, accepted_ms=int(time.time() * 1000))
    truth.inbox = [now]
    place.store.fault = Unavailable("the store does not answer")
    woken = transitions.wake(truth.record, lane="batch")
    await pod.hold(truth, claimed(truth, woken))

    assert truth.results[FIRST].status == "expired"
    assert (truth.record.boundary, truth.record.losses) == (boundary, 0)


async def test_a_task_that_is_cancelled_waits_no_longer(place: Place) -> None:
    """It ends at once as `cancelled`, the boundary stays, and the next task waits in its turn."""
    await saved_session(place)
    truth, pod = place.truth, place.new_pod()
    truth.inbox = [entry(1), entry(2)]
    place.store.fault = Unavailable("the store does not answer")
    woken = transitions.wake(truth.record, lane="batch")
    holding = asyncio.ensure_future(pod.hold(truth, claimed(truth, woken)))
    await until(lambda: pod.says == ("restoring", "the store does not answer"))
    assert pod.files is not None
    pod.files.cancel()
    await until(lambda: FIRST in truth.results)
    assert truth.results[FIRST].status == "cancelled"
    place.store.fault = None
    await holding

    assert truth.results["task-0002"].status == "ok"
    assert pod.sandbox.journal() == ["one"]
