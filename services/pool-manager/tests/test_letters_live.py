"""Dead letters as pool-managers write and serve them: of poison, and of sessions that can never be."""

from __future__ import annotations

from typing import Any

import pytest

from shared import messages, subjects
from shared.bus import Bus
from shared.ids import TOKEN_LENGTH_MAX, home
from shared.letters import TOKEN_SHOWN_LENGTH
from shared.testing.look import Look, until
from shared.testing.names import unique
from shared.views import LetterAnswer, LetterAsk, LetterDropped, LettersAnswer, LettersAsk

FAST = {"survey_s": 0.3}
TASK = b'{"kind": "open", "keep": true}'


async def ask(bus: Bus, what: str, question: Any, kind: Any, tenant: str = "acme") -> Any:
    """Ask as a client does."""
    answer = await bus.request(subjects.ask(tenant, what), messages.encode(question), timeout_s=5.0)
    return messages.decode(answer.data, kind)


@pytest.mark.parametrize("session", ["no!id", "x", "s" * 65])
async def test_one_of_an_id_that_can_be_none_is_refused(
    start: Any, look: Look, session: str
) -> None:
    """No first task can found it, so nothing waits: a dead letter and a result, by field and limit."""
    await start("pm-1", **FAST)
    task = unique("task-in-no-session")
    await look.send(session, task, body=TASK)

    result = await look.ended(session, task)

    assert (result.status, result.reason) == ("rejected", "invalid")
    assert result.error is not None
    assert "subject" in result.error.message
    assert "8 to 64" in result.error.message
    page = await ask(look.bus, "dead_letters", LettersAsk(), LettersAnswer)
    (row,) = (row for row in page.letters if row.letter.task == task)
    assert row.letter.error == result.error
    assert row.letter.origin.startswith(f"I{home(session)}/")
    await look.emptied(session)


@pytest.mark.parametrize("wrong", ["*", "\ufffd", "n" * (TOKEN_LENGTH_MAX + 1)])
@pytest.mark.parametrize("is_session", [True, False])
async def test_what_no_name_finds_again_has_its_dead_letter_and_touches_nothing_else(
    start: Any, node: Any, look: Look, wrong: str, is_session: bool
) -> None:
    """A wildcard as a session's name found the records and inboxes of all others of its tenant."""
    await start("pm-1", **FAST, unknown_after_s=60.0)
    beside = next(name for _ in range(99) if home(name := unique("session")) == home(wrong))
    worker = (await node.warm(2))[0]
    await worker.create(beside)
    await look.send(beside, "task-0001", body=TASK)
    unknown = next(name for _ in range(99) if home(name := unique("session")) == home(wrong))
    await look.send(unknown, "task-0001", body=TASK)
    session, task = (wrong, unique("task")) if is_session else (beside, wrong)
    await look.send(session, task, body=TASK)
    shown = (session[:TOKEN_SHOWN_LENGTH], task[:TOKEN_SHOWN_LENGTH])

    async def is_buried() -> bool:
        page = await ask(look.bus, "dead_letters", LettersAsk(), LettersAnswer)
        return shown in {(row.letter.session, row.letter.task) for row in page.letters}

    async def left() -> list[str]:
        info = await look.bus.js_api(
            f"STREAM.INFO.I{home(session)}", {"subjects_filter": "in.*.acme.>"}
        )
        return sorted(subject.split(".", 3)[3] for subject in info["state"].get("subjects") or {})

    async def is_alone() -> bool:
        return await left() == sorted([f"{beside}.task-0001", f"{unknown}.task-0001"])

    await until(is_buried)
    await until(is_alone)
    for each in (beside, unknown):
        assert await look.result(each, "task-0001") is None
    assert (await look.in_state(beside, "running")).epoch == 1


class TestPoison:
    """A task that kills its worker's process again and again."""

    async def test_a_later_task_that_kills_its_workers_becomes_a_dead_letter(
        self, start: Any, node: Any, look: Look
    ) -> None:
        """Three deaths with the node alive: result, letter with the body, and the rest of the inbox is refused."""
        await start("pm-1", pools=[{"name": "default", "stock": 3}])
        session, task, killer = (
            unique("session"),
            "task-0001",
            b'{"kind": "open", "deadline_s": 500}',
        )
        for death in range(3):
            worker = (await node.warm(1))[0]
            if death == 0:
                await worker.create(session)
                await worker.finish()
                await look.send(session, task, body=killer)
                await look.send(session, "task-0002", body=TASK)
            else:
                await worker.claim(look, session, task)
            worker.task = task
            await worker.is_heard()
            await worker.leave("killed")
            await look.in_state(session, "poison" if death == 2 else "queued")

        result = await look.ended(session, task)
        assert (result.status, result.reason) == ("poison", "deaths")
        assert len(result.interruptions) == 3
        assert (await look.ended(session, "task-0002")).reason == "session_ended"
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


async def test_a_tenant_finds_only_its_own_dead_letters(start: Any, look: Look) -> None:
    """In listings, by number, and to drop."""
    await start("pm-1", **FAST)
    task = unique("task-of-acme")
    await look.send("x", task, body=TASK)
    await look.ended("x", task)
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
