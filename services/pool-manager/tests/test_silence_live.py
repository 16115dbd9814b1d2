"""Every accepted task reaches an end, also where no worker looks: deadlines, unknown and ended sessions, poison."""

from __future__ import annotations

import json
from typing import Any

from shared import messages, subjects
from shared.ids import home
from shared.messages import CancelAsk
from shared.testing.look import Look, until
from shared.testing.names import unique

FAST = {"survey_s": 0.3}


def body(deadline_s: float | None = None) -> bytes:
    """Return a task."""
    fields: dict[str, Any] = {"kind": "open", "keep": True}
    return json.dumps(fields | ({"deadline_s": deadline_s} if deadline_s else {})).encode()


class TestDeadlines:
    """`deadline_s` counts from the acceptance, wherever the task waits."""

    async def test_behind_a_running_task(self, start: Any, node: Any, look: Look) -> None:
        """The one behind ends in time; what runs goes on, and so does what has more time."""
        await start("pm-1", **FAST)
        await start("pm-2", **FAST)
        session = unique("session")
        worker = (await node.warm(2))[0]
        await worker.create(session)
        await worker.finish()
        first = await look.send(session, "task-0001", body=body(1.0))
        await look.send(session, "task-0002", body=body(1.0))
        await look.send(session, "task-0003", body=body())
        worker.task = "task-0001"

        result = await look.ended(session, "task-0002")

        assert (result.status, result.reason) == ("expired", "deadline")
        assert result.error is not None
        assert result.error.definite
        assert await look.result(session, "task-0001") is None, "its owner has it in hand"
        assert await look.result(session, "task-0003") is None
        assert (await look.in_state(session, "running")).epoch == 1
        await worker.finish(inbox_seq=first)  # late as it is, what finished has finished
        assert (await look.ended(session, "task-0001")).status == "ok"

    async def test_behind_one_that_was_cancelled(self, start: Any, node: Any, look: Look) -> None:
        """Its owner passed that one and runs the next: what finished has finished."""
        await start("pm-1", **FAST)
        session = unique("session")
        worker = (await node.warm(2))[0]
        await worker.create(session)
        await worker.finish()
        await look.send(session, "task-0001", body=body(1.0))
        second = await look.send(session, "task-0002", body=body(1.0))
        await look.send(session, "task-0003", body=body(1.0))
        subject = subjects.cancel("acme", session, "task-0001")
        await look.bus.request(subject, messages.encode(CancelAsk()), timeout_s=5.0)
        worker.task = "task-0002"

        assert (await look.ended(session, "task-0003")).status == "expired"
        assert await look.result(session, "task-0002") is None, "its owner has it in hand"
        await worker.finish(inbox_seq=second)
        assert (await look.ended(session, "task-0002")).status == "ok"

    async def test_of_a_session_whose_pool_has_no_worker(
        self, start: Any, node: Any, look: Look
    ) -> None:
        """It waits for a worker that never comes; the entry leaves the inbox, the session lives on."""
        await start("pm-1", **FAST, pools=[{"name": "default", "stock": 1}])
        session = unique("session")
        worker = (await node.warm(1))[0]
        node.refuses = "no room"
        await worker.create(session)
        await worker.finish()
        await worker.release()
        await look.in_state(session, "idle")
        await look.send(session, "task-0001", body=body(1.0))

        result = await look.ended(session, "task-0001")

        assert (result.status, result.reason) == ("expired", "deadline")
        await look.emptied(session)
        assert (await look.record(session)).state == "queued"  # type: ignore[union-attr]  # it is there

    async def test_of_a_first_task_that_waits_for_a_worker_again(
        self, start: Any, node: Any, look: Look
    ) -> None:
        """Its worker died, no other comes: the session ends with it, and its inbox is refused."""
        await start("pm-1", **FAST, pools=[{"name": "default", "stock": 1}])
        session = unique("session")
        worker = (await node.warm(1))[0]
        node.refuses = "no room"
        await worker.create(session, payload=body(4.0))
        await look.send(session, "task-0001", body=body())
        await worker.leave("killed")

        result = await look.ended(session, session, within_s=15.0)

        assert (result.status, result.reason) == ("expired", "deadline")
        assert result.interruptions[0].cause == "process_exit"
        assert result.error is not None
        assert not result.error.definite, "it had begun"
        assert (await look.in_state(session, "expired")).end_reason == "deadline"
        assert (await look.ended(session, "task-0001")).reason == "session_ended"

    async def test_of_a_session_that_is_not_known_yet(self, start: Any, look: Look) -> None:
        """Its first task may wait in a lane; this one's own time is over."""
        await start("pm-1", **FAST)
        session = unique("session")
        await look.send(session, "task-0001", body=body(0.5))
        await look.send(session, "task-0002", body=body())

        result = await look.ended(session, "task-0001")

        assert (result.status, result.reason) == ("expired", "deadline")
        assert await look.result(session, "task-0002") is None


class TestSessions:
    """Tasks of sessions that do not exist, or no more."""

    async def test_an_unknown_one_waits_for_its_first_task(
        self, start: Any, node: Any, look: Look
    ) -> None:
        """However long that takes, within a day: then the entry is the session's own."""
        await start("pm-1", **FAST)
        session = unique("session")
        seq = await look.send(session, "task-0001", body=body())

        worker = (await node.warm(2))[0]
        await worker.create(session)
        await worker.finish()
        worker.task = "task-0001"
        await worker.finish(inbox_seq=seq)

        assert (await look.ended(session, "task-0001")).status == "ok"

    async def test_an_unknown_one_is_refused_in_the_end(
        self, start: Any, node: Any, look: Look
    ) -> None:
        """After a day (here a second); one that became known meanwhile is not."""
        await start("pm-1", **FAST, unknown_after_s=2.0)
        known, unknown = unique("session"), unique("session")
        for session in (known, unknown):
            await look.send(session, "task-0001", body=body())
        worker = (await node.warm(2))[0]
        await worker.create(known)

        result = await look.ended(unknown, "task-0001")

        assert (result.status, result.reason) == ("rejected", "unknown_session")
        await look.emptied(unknown)
        assert await look.result(known, "task-0001") is None
        assert await look.inbox_size(known) == 1

    async def test_what_came_before_the_close_was_done_is_refused_at_once(
        self, start: Any, node: Any, look: Look
    ) -> None:
        """Not at the next survey of the inboxes, which is a minute away here."""
        session = unique("session")
        probe = next(name for number in range(99) if home(name := f"!{number}") == home(session))
        await look.send(probe, task := unique("probe"), body=body())
        await start("pm-1", survey_s=60.0)
        await start("pm-2", survey_s=60.0)
        await look.ended(probe, task)  # by the first survey: the next one is far
        worker = (await node.warm(2))[0]
        await worker.create(session)
        await worker.finish()
        closing = await look.send(session, "task-0001", body=b'{"kind": "close"}')
        await look.send(session, "task-0002", body=body())
        worker.task = "task-0001"

        await worker.finish(inbox_seq=closing, close=True)

        result = await look.ended(session, "task-0002")
        assert (result.status, result.reason) == ("rejected", "session_ended")
        await look.emptied(session)

    async def test_another_tenant_s_is_as_good_as_unknown(
        self, start: Any, node: Any, look: Look
    ) -> None:
        """Nothing of it is touched, nothing is told."""
        await start("pm-1", **FAST, unknown_after_s=1.0)
        other = Look(look.bus, "other")
        session = unique("session")
        worker = (await node.warm(2))[0]
        await worker.create(session)
        await worker.finish()
        await other.send(session, "task-0001", body=body())

        result = await other.ended(session, "task-0001")

        assert (result.status, result.reason) == ("rejected", "unknown_session")
        assert await look.result(session, "task-0001") is None
        assert (await look.in_state(session, "running")).epoch == 1


async def test_results_and_records_are_kept_for_their_time(
    start: Any, node: Any, look: Look
) -> None:
    """Two days; here a second."""
    await start("pm-1", kept_s=1.0)
    session = unique("session")
    worker = (await node.warm(2))[0]
    await worker.create(session)
    await worker.finish(close=True)

    async def is_gone() -> bool:
        return await look.result(session) is None and await look.record(session) is None

    await until(is_gone, within_s=15.0)
