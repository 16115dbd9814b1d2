"""What clients are told of a task's stored output, on real servers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pool_manager.core.replays import ANSWER_BYTES_MAX
from shared import headers, messages, subjects
from shared.bus import Bus
from shared.testing.look import Look, until
from shared.testing.names import unique
from shared.views import OutputAnswer, OutputAsk, OutputMark

Say = Callable[..., Awaitable[None]]


@pytest.fixture
async def bus(start: Any, look: Look) -> Bus:
    """A connection, beside one pool-manager that no pool keeps busy."""
    await start("pm-1", pools=[{"name": "default", "stock": 0}])
    return look.bus


@pytest.fixture
def task() -> str:
    """A session's first task."""
    return unique("task")


@pytest.fixture
def say(bus: Bus, task: str) -> Say:
    """Return a function that says something as the task's worker does."""

    async def one(number: int, data: bytes = b"", *, epoch: int = 1, attempt: int = 1) -> None:
        await bus.publish(
            subjects.output("acme", task, task),
            data or b"%d" % number,
            headers={
                headers.EVENT: "output",
                headers.NUMBER: str(number),
                headers.EPOCH: str(epoch),
                headers.ATTEMPT: str(attempt),
            },
        )

    return one


async def ask(bus: Bus, task: str, *, tenant: str = "acme", **more: Any) -> OutputAnswer:
    """Ask as a client does."""
    question = messages.encode(OutputAsk(session=task, task=task, **more))
    reply = await bus.request(subjects.ask(tenant, "output"), question, timeout_s=3.0)
    assert len(reply.data) < ANSWER_BYTES_MAX + 128 * 1024
    return messages.decode(reply.data, OutputAnswer)


async def stored(bus: Bus, task: str, count: int) -> None:
    """Wait until so many messages of the task are stored: nobody acknowledges them one by one."""
    subject = subjects.output("acme", task, task)

    async def all_there() -> bool:
        found = await bus.js_api("STREAM.INFO.OUT", {"subjects_filter": subject})
        return (found["state"].get("subjects") or {}).get(subject) == count

    await until(all_there)


async def test_what_was_said_is_told_in_order_with_its_headers(
    bus: Bus, task: str, say: Say
) -> None:
    """Binary content too; what the servers wrote on the messages stays here."""
    await say(0, b"\x00\xff")
    await say(1)
    await stored(bus, task, 2)
    answer = await ask(bus, task)

    assert [message.data for message in answer.messages] == [b"\x00\xff", b"1"]
    assert answer.messages[1].headers[headers.NUMBER] == "1"
    assert not any(name.startswith("Nats-") for name in answer.messages[0].headers)
    assert answer.messages[0].at_ms > 0
    assert not answer.more


async def test_much_output_comes_in_pages_that_a_message_can_hold(
    bus: Bus, task: str, say: Say
) -> None:
    """Each goes on where the one before ended, and the last one says that it is the last."""
    for number in range(40):
        await say(number, b"%03d" % number + b"x" * 60_000)
    await stored(bus, task, 40)
    heard: list[bytes] = []
    answer, pages = await ask(bus, task), 1
    while True:
        heard += [message.data[:3] for message in answer.messages]
        if not answer.more:
            break
        answer, pages = await ask(bus, task, after=answer.next), pages + 1

    assert heard == [b"%03d" % number for number in range(40)]
    assert pages > 4


async def test_a_client_that_knows_most_is_told_the_rest(bus: Bus, task: str, say: Say) -> None:
    """The attempt and number of a message say where it stands; of an attempt before, nothing comes again."""
    for number in range(20):
        await say(number)
    for number in range(20):
        await say(number, epoch=3, attempt=2)
    await stored(bus, task, 40)
    answer = await ask(bus, task, since=OutputMark(3, 2, 17))

    assert [message.data for message in answer.messages][-3:] == [b"17", b"18", b"19"]
    assert len(answer.messages) <= 4
    nothing = await ask(bus, task, since=OutputMark(3, 2, 20))
    assert len(nothing.messages) <= 1
    everything = await ask(bus, task, since=OutputMark(1, 1, 0))
    assert len(everything.messages) == 40


async def test_nothing_is_told_of_another_tenants_task(bus: Bus, task: str, say: Say) -> None:
    """The subject of the question decides, not its body."""
    await say(0)
    await stored(bus, task, 1)

    assert await ask(bus, task, tenant="else") == OutputAnswer()


@pytest.mark.parametrize("body", [b"", b"{", b'{"session": "a.*", "task": ">"}'])
async def test_a_question_that_cannot_be_read_is_refused(bus: Bus, body: bytes) -> None:
    """By name, never by silence; wildcards are no ids."""
    reply = await bus.request(subjects.ask("acme", "output"), body, timeout_s=3.0)

    error = messages.decode(reply.data, OutputAnswer).error
    assert error is not None
    assert error.code == "invalid_message"


async def test_a_client_that_asks_for_few_messages_gets_few(bus: Bus, task: str, say: Say) -> None:
    """What comes behind is there for the next question."""
    for number in range(6):
        await say(number)
    await stored(bus, task, 6)
    first = await ask(bus, task, limit=2)
    rest = await ask(bus, task, after=first.next)

    assert [message.data for message in first.messages] == [b"0", b"1"]
    assert first.more
    assert [message.data for message in rest.messages] == [b"2", b"3", b"4", b"5"]
