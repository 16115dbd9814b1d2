"""Inboxes of sessions that nobody owns, and messages that nobody pulls, on real servers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from shared import subjects
from shared.failpoints import Plan, PlanFolder
from shared.ids import home
from shared.testing.look import Look, until
from shared.testing.names import unique


@pytest.fixture
async def session(start: Any) -> str:
    """A session's name; two pool-managers serve."""
    await start("pm-1")
    await start("pm-2")
    return unique("session")


async def test_an_idle_session_is_woken_by_its_inbox(node: Any, look: Look, session: str) -> None:
    """Queued once, with one token in its own class."""
    worker = (await node.warm(2))[0]
    await worker.create(session)
    await worker.finish()
    await worker.release()
    await look.in_state(session, "idle")

    await look.send(session, "task-0001")

    record = await look.in_state(session, "queued")
    assert record.lane == "interactive"
    assert len(await until(lambda: look.tokens(session))) == 1


async def test_a_wake_up_that_can_not_be_written_is_not_forgotten(
    start: Any, node: Any, look: Look, tmp_path: Path
) -> None:
    """The session's home gives no answer for a while, as in an election: it is woken as soon as that is over.

    The next survey of the inboxes is a minute away.
    """
    plans = PlanFolder(tmp_path / "faults")
    plans.make()
    session = unique("session")
    step = "pool_manager.wake.write"
    for nth in range(1, 6):  # more than one round of tries
        plans.place(Plan(name=f"{nth}", step=step, kind="request_lost", nth=nth, about=(session,)))
    await start("pm-1", survey_s=60.0, failpoints=str(tmp_path / "faults"))
    worker = (await node.warm(2))[0]
    await worker.create(session)
    await worker.finish()
    await worker.release()
    await look.in_state(session, "idle")

    await look.send(session, "task-0001")

    await look.in_state(session, "queued", within_s=20.0)
    assert plans.fired("5") is not None


async def test_an_idle_session_whose_work_turns_urgent_rises(
    node: Any, look: Look, session: str
) -> None:
    """First a token in `batch`, as the first task asks; then one more where the second one asks."""
    worker = (await node.warm(2))[0]
    await worker.create(session)
    await worker.finish()
    await worker.release()
    await look.in_state(session, "idle")
    lane = f"q.{home(session)}.acme.default"

    await look.send(session, "task-0001", "batch")

    assert (await look.in_state(session, "queued")).lane == "batch"
    await until(lambda: look.tokens(session))
    assert await look.tokens(session) == [f"{lane}.batch"]

    await look.send(session, "task-0002", "nonsense")  # taken for none: the session's own class

    async def has_risen() -> bool:
        return set(await look.tokens(session)) == {f"{lane}.batch", f"{lane}.interactive"}

    await until(has_risen)
    assert (await look.in_state(session, "queued")).lane == "interactive"
    assert (await look.in_state(session, "queued")).epoch == 1


async def test_a_wake_up_is_kept_while_the_record_names_an_owner(
    node: Any, look: Look, session: str
) -> None:
    """Its owner let go without a look at it: it is not left to the survey of the inboxes, every 10 s."""
    worker = (await node.warm(2))[0]
    await worker.create(session)
    await worker.finish()
    await look.send(session, "task-0001", "batch")
    await asyncio.sleep(0.3)  # nothing tells that both have heard it

    await worker.release()

    assert (await look.in_state(session, "queued", within_s=7.0)).lane == "batch"


async def test_the_survey_finds_what_nobody_heard_and_how_urgent_it_is(
    start: Any, node: Any, look: Look, tmp_path: Path
) -> None:
    """No pool-manager lived when a session queued in `batch` got an urgent task."""
    stop = await start("pm-1")
    session = unique("session")
    worker = (await node.warm(2))[0]
    await worker.create(session)
    await worker.finish()
    stop.set("test")
    await until(lambda: not (tmp_path / "pm-1.ready").exists())
    await worker.release()
    await look.send(session, "task-0001", "batch")
    await look.send(session, "task-0002", "interactive")

    await start("pm-2")

    assert (await look.in_state(session, "queued", within_s=15.0)).lane == "interactive"


async def test_an_ended_session_refuses_its_inbox(node: Any, look: Look, session: str) -> None:
    """The task gets a result that says why, and leaves the inbox."""
    worker = (await node.warm(2))[0]
    await worker.create(session)
    await worker.finish(close=True)
    await look.in_state(session, "closed")

    await look.send(session, "task-0001")

    result = await until(lambda: look.result(session, "task-0001"))
    assert (result.status, result.reason) == ("rejected", "session_ended")
    await look.emptied(session)


async def test_an_unknown_session_is_left_alone(look: Look, session: str) -> None:
    """Its first task may still wait in a lane."""
    other = unique("session")
    await look.send(session, "task-0001")
    await look.bus.publish_acked(
        subjects.queue(0, "acme", "default", "interactive"),
        b'{"kind": "open", "deadline_s": 0.1}',
        message_id=other,
    )

    await look.in_state(other, "expired")  # by then the inbox entry was looked at long ago

    assert await look.result(session, "task-0001") is None
    assert await look.inbox_size(session) == 1


async def test_a_message_past_its_deadline_is_expired(look: Look, session: str) -> None:
    """Record and result are created, and the message leaves its lane."""
    subject = subjects.queue(1, "acme", "default", "batch")
    body = b'{"kind": "open", "deadline_s": 0.2}'
    await look.bus.publish_acked(subject, body, message_id=session)

    record = await look.in_state(session, "expired")

    assert (record.lane, record.end_reason) == ("batch", "deadline")
    result = await until(lambda: look.result(session))
    assert (result.status, result.reason) == ("expired", "deadline")

    async def is_empty() -> bool:
        return await look.bus.read_next("Q1", subject, after_seq=0) is None

    await until(is_empty)


async def test_a_session_that_was_missed_is_woken_at_the_next_start(
    start: Any, node: Any, look: Look, tmp_path: Path
) -> None:
    """No pool-manager lived when the task came: the survey of the inboxes finds it."""
    stop = await start("pm-1")
    session = unique("session")
    worker = (await node.warm(2))[0]
    await worker.create(session)
    await worker.finish()
    stop.set("test")
    await until(lambda: not (tmp_path / "pm-1.ready").exists())
    await worker.release()
    await look.send(session, "task-0001")

    await start("pm-2")

    await look.in_state(session, "queued", within_s=15.0)


async def test_what_a_busy_session_has_done_leaves_its_inbox(
    start: Any, node: Any, look: Look, tmp_path: Path
) -> None:
    """Its owner may not purge; in the survey what lies up to `position` goes, and no more."""
    stop = await start("pm-1")
    session = unique("session")
    worker = (await node.warm(2))[0]
    await worker.create(session)
    await worker.finish()
    seqs = [await look.send(session, f"task-{number:04d}") for number in range(18)]
    worker.task = "task-0014"
    await worker.finish(inbox_seq=seqs[14])
    stop.set("test")
    await until(lambda: not (tmp_path / "pm-1.ready").exists())

    await start("pm-2")

    async def is_purged() -> bool:
        return await look.inbox_size(session) == 3

    await until(is_purged)
