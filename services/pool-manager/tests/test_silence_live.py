"""Every accepted task reaches an end, also where no worker looks: deadlines, unknown and ended sessions, poison."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared import messages, subjects
from shared.bus import Bus
from shared.ids import home
from shared.messages import TaskResult
from shared.testing.look import Look, until
from shared.testing.names import unique
from shared.views import LetterAnswer, LetterAsk, LetterDropped, LettersAnswer, LettersAsk

FAST = {"survey_s": 0.3}


def body(deadline_s: float | None = None) -> bytes:
    """Return a task."""
    fields: dict[str, Any] = {"kind": "open", "keep": True}
    return json.dumps(fields | ({"deadline_s": deadline_s} if deadline_s else {})).encode()


async def ended(look: Look, session: str, task: str, *, within_s: float = 10.0) -> TaskResult:
    """Wait for a task's result."""
    found: TaskResult = await until(lambda: look.result(session, task), within_s=within_s)
    return found


async def is_empty(look: Look, session: str) -> None:
    """Wait until a session's inbox is empty."""

    async def check() -> bool:
        return await look.inbox_size(session) == 0

    await until(check)


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

        result = await ended(look, session, "task-0002")

        assert (result.status, result.reason) == ("expired", "deadline")
        assert result.error is not None
        assert result.error.definite
        assert await look.result(session, "task-0001") is None, "its owner has it in hand"
        assert await look.result(session, "task-0003") is None
        assert (await look.in_state(session, "running")).epoch == 1
        await worker.finish(inbox_seq=first)  # late as it is, what finished has finished
        assert (await ended(look, session, "task-0001")).status == "ok"

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

        result = await ended(look, session, "task-0001")

        assert (result.status, result.reason) == ("expired", "deadline")
        await is_empty(look, session)
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

        result = await ended(look, session, session, within_s=15.0)

        assert (result.status, result.reason) == ("expired", "deadline")
        assert result.interruptions[0].cause == "process_exit"
        assert result.error is not None
        assert not result.error.definite, "it had begun"
        assert (await look.in_state(session, "expired")).end_reason == "deadline"
        assert (await ended(look, session, "task-0001")).reason == "session_ended"

    async def test_of_a_session_that_is_not_known_yet(self, start: Any, look: Look) -> None:
        """Its first task may wait in a lane; this one's own time is over."""
        await start("pm-1", **FAST)
        session = unique("session")
        await look.send(session, "task-0001", body=body(0.5))
        await look.send(session, "task-0002", body=body())

        result = await ended(look, session, "task-0001")

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

        assert (await ended(look, session, "task-0001")).status == "ok"

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

        result = await ended(look, unknown, "task-0001")

        assert (result.status, result.reason) == ("rejected", "unknown_session")
        await is_empty(look, unknown)
        assert await look.result(known, "task-0001") is None
        assert await look.inbox_size(known) == 1

    async def test_what_came_before_the_close_was_done_is_refused_at_once(
        self, start: Any, node: Any, look: Look
    ) -> None:
        """Not at the next survey of the inboxes, which is an hour away here."""
        await start("pm-1", survey_s=60.0)
        await start("pm-2", survey_s=60.0)
        session = unique("session")
        worker = (await node.warm(2))[0]
        await worker.create(session)
        await worker.finish()
        closing = await look.send(session, "task-0001", body=b'{"kind": "close"}')
        await look.send(session, "task-0002", body=body())
        worker.task = "task-0001"

        await worker.finish(inbox_seq=closing, close=True)

        result = await ended(look, session, "task-0002")
        assert (result.status, result.reason) == ("rejected", "session_ended")
        await is_empty(look, session)

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

        result = await ended(other, session, "task-0001")

        assert (result.status, result.reason) == ("rejected", "unknown_session")
        assert await look.result(session, "task-0001") is None
        assert (await look.in_state(session, "running")).epoch == 1

    @pytest.mark.parametrize("session", ["no!id", "x", "s" * 65])
    async def test_one_of_an_id_that_can_be_none_is_refused(
        self, start: Any, look: Look, session: str
    ) -> None:
        """No first task can found it, so nothing waits: a dead letter and a result, by field and limit."""
        await start("pm-1", **FAST)
        task = unique("task-in-no-session")
        await look.send(session, task, body=body())

        result = await ended(look, session, task)

        assert (result.status, result.reason) == ("rejected", "invalid")
        assert result.error is not None
        assert "subject" in result.error.message
        assert "8 to 64" in result.error.message
        page = await ask(look.bus, "dead_letters", LettersAsk(), LettersAnswer)
        (row,) = (row for row in page.letters if row.letter.task == task)
        assert row.letter.error == result.error
        assert row.letter.origin.startswith(f"I{home(session)}/")
        await is_empty(look, session)


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


class TestPoison:
    """A task that kills its worker's process again and again."""

    async def test_a_later_task_that_kills_its_workers_becomes_a_dead_letter(
        self, start: Any, node: Any, look: Look
    ) -> None:
        """Three deaths with the node alive: result, letter with the body, and the rest of the inbox is refused."""
        await start("pm-1", pools=[{"name": "default", "stock": 3}])
        session, task, killer = unique("session"), "task-0001", body(500)
        for death in range(3):
            worker = (await node.warm(1))[0]
            if death == 0:
                await worker.create(session)
                await worker.finish()
                await look.send(session, task, body=killer)
                await look.send(session, "task-0002", body=body())
            else:
                await worker.claim(look, session, task)
            worker.task = task
            await worker.leave("killed")
            await look.in_state(session, "poison" if death == 2 else "queued")

        result = await ended(look, session, task)
        assert (result.status, result.reason) == ("poison", "deaths")
        assert len(result.interruptions) == 3
        assert (await ended(look, session, "task-0002")).reason == "session_ended"
        page = await ask(look.bus, "dead_letters", LettersAsk(limit=1), LettersAnswer)
        (row,) = page.letters
        letter = row.letter
        assert (letter.task, letter.session, letter.status) == (task, session, "poison")
        assert (letter.attempts, letter.error) == (3, result.error)
        shown = await ask(look.bus, "dead_letter", LetterAsk(number=row.number), LetterAnswer)
        assert shown.body == killer

    @pytest.mark.parametrize(
        ("cause", "exit_code"), [("exited", 0), ("deleted", None), ("node_restarted", None)]
    )
    async def test_what_is_not_the_task_s_fault_never_counts(
        self, start: Any, node: Any, look: Look, cause: str, exit_code: int | None
    ) -> None:
        """A worker that left in order, was ended by us, or went with its node."""
        await start("pm-1", pools=[{"name": "default", "stock": 3}])
        session = unique("session")
        for loss in range(4):
            worker = (await node.warm(1))[0]
            if loss == 0:
                await worker.create(session)
            else:
                await worker.claim(look, session)
            await worker.leave(cause, exit_code=exit_code)
            record = await look.in_state(session, "queued")

        assert record.deaths == 0
        assert len(record.interruptions) == 4


async def ask(bus: Bus, what: str, question: Any, kind: Any, tenant: str = "acme") -> Any:
    """Ask as a client does."""
    answer = await bus.request(subjects.ask(tenant, what), messages.encode(question), timeout_s=5.0)
    return messages.decode(answer.data, kind)


async def test_a_tenant_finds_only_its_own_dead_letters(start: Any, look: Look) -> None:
    """In listings, by number, and to drop."""
    await start("pm-1", **FAST)
    task = unique("task-of-acme")
    await look.send("x", task, body=body())
    await ended(look, "x", task)
    mine = await ask(look.bus, "dead_letters", LettersAsk(limit=1), LettersAnswer)
    number = LetterAsk(number=mine.letters[0].number)

    page = await ask(look.bus, "dead_letters", LettersAsk(), LettersAnswer, "other")
    shown = await ask(look.bus, "dead_letter", number, LetterAnswer, "other")
    dropped = await ask(look.bus, "dead_letter_drop", number, LetterDropped, "other")

    assert task not in [row.letter.task for row in page.letters]
    assert shown.row is None
    assert not dropped.dropped
    assert (await ask(look.bus, "dead_letter_drop", number, LetterDropped)).dropped
    assert not (await ask(look.bus, "dead_letter_drop", number, LetterDropped)).dropped
