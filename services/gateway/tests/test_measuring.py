"""What a gateway measures of its callers' tasks: whose it is, how many it listens to, and what it asks when it heard nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from agent_sandbox import RunningTask, Started, running
from agent_sandbox.orders import Order
from gateway.adapters import measuring
from gateway.adapters.measuring import Meter
from shared import headers, messages
from shared.errors import InvalidMessage, Unavailable
from shared.messages import Interruption, OutputEvent, TaskResult, Timing
from shared.testing.look import until
from shared.views import OutputAnswer, OutputAsk, OutputMessage

TIMING = Timing(
    accepted_ms=1000, path="warm", delivered_ms=1001.5, claimed_ms=1003.0, started_ms=1006.0
)
STARTED = Started(attempt=1, worker="p-0-1", pool="p", timing=TIMING)


class Quiet:
    """A way to the system on which nothing is heard by itself; it counts what is listened to."""

    def __init__(self) -> None:
        """Listen to nothing."""
        self.open = 0

    def watch(self, *_: Any) -> Quiet:
        """Listen to one task more."""
        self.open += 1
        return self

    def mute(self) -> None:
        """Nobody reads events."""

    async def read(self) -> None:
        """There is no result."""

    async def close(self) -> None:
        """Listen to one task less."""
        self.open -= 1


def published(way: Quiet, number: int, tenant: str = "t") -> RunningTask:
    """Return a task that was published."""
    task = f"task-{number:04d}"
    order = Order(tenant=tenant, session=task, task=task, body=b"", wait_s=60.0, pool="p")
    return RunningTask(way, order)  # type: ignore[arg-type]  # as much of a transport as is used


@pytest.fixture
async def meter() -> AsyncIterator[Meter]:
    """A gateway's."""
    made = Meter("gateway-test")
    yield made
    await made.close()


async def test_a_tenant_is_told_of_its_own_tasks_only(meter: Meter) -> None:
    """Of statistics and of single tasks."""
    task = published(Quiet(), 1, "mine")
    task.hear_start(STARTED)
    await meter.leave(task)

    assert [(row.pool, row.path, row.count) for row in meter.answer("mine").pools] == [
        ("p", "warm", 1)
    ]
    assert meter.answer("yours").pools == ()
    mine: Any = Asked("mine")
    yours: Any = Asked("yours")
    assert await meter.tti_of(mine, ("task-0001", "task-0001"), None) == task.tti
    assert await meter.tti_of(yours, ("task-0001", "task-0001"), None) is None


async def test_a_task_whose_caller_has_his_answer_is_heard_until_it_starts(meter: Meter) -> None:
    """Then nothing of it is listened to any more."""
    way = Quiet()
    task = published(way, 1)
    assert not await meter.started(task, 0.01)
    await meter.leave(task)
    assert (way.open, meter.answer("t").pools) == (1, ())

    task.hear_start(STARTED)
    await until(lambda: way.open == 0)
    (row,) = meter.answer("t").pools
    assert task.tti is not None
    assert (row.count, row.last_ms) == (1, task.tti.tti_ms)


async def test_a_wait_that_fails_is_no_error_of_a_call_that_was_accepted(
    meter: Meter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told that it was refused, its caller would send it again under another id."""
    monkeypatch.setattr(running, "READ_EVERY_S", 0.01)

    class Newer(Quiet):
        async def read(self) -> None:
            raise InvalidMessage("TaskResult: of a newer system")

    task = published(Newer(), 1)
    async with asyncio.timeout(15):
        assert not await meter.started(task, 30)


async def test_the_tasks_that_are_listened_to_are_bounded_for_each_tenant(
    meter: Meter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes on top is left to the servers' stamps; another tenant's is heard; at the end none is."""
    monkeypatch.setattr(measuring, "TENANT_WATCHES_MAX", 3)
    way = Quiet()
    for number in range(10):
        await meter.leave(published(way, number, "loud"))
    assert way.open == 3
    await meter.leave(published(way, 11, "quiet"))
    assert way.open == 4

    await asyncio.sleep(0)
    await meter.close()
    assert way.open == 0


async def test_creates_that_wait_are_bounded_for_each_tenant(
    meter: Meter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others have their answers at once; when one has started there is room again."""
    monkeypatch.setattr(measuring, "TENANT_WAITING_MAX", 1)
    way = Quiet()
    first = published(way, 1)
    waiting = asyncio.create_task(meter.started(first, 30))
    await asyncio.sleep(0)
    async with asyncio.timeout(15):
        assert not await meter.started(published(way, 2), 30)
        first.hear_start(STARTED)
        assert await waiting
        third = published(way, 3)
        again = asyncio.create_task(meter.started(third, 30))
        await asyncio.sleep(0.01)
        assert not again.done()
        third.hear_start(STARTED)
        assert await again


class Asked:
    """A tenant's client that is asked for the stored output of a task, a message an answer."""

    def __init__(self, tenant: str = "t", *stored: OutputMessage) -> None:
        """Have these messages."""
        self.options = self
        self.tenant = tenant
        self.stored = stored
        self.asked = 0

    async def ask(self, what: str, question: OutputAsk, _kind: object) -> OutputAnswer:
        """Answer with one message."""
        assert what == "output"
        self.asked += 1
        after = question.after
        more = after + 1 < len(self.stored)
        return OutputAnswer(messages=self.stored[after : after + 1], next=after + 1, more=more)


def event(name: str, timing: Timing | None = None) -> OutputMessage:
    """Return a stored event."""
    body = messages.encode(OutputEvent(task="x", timing=timing))
    return OutputMessage(headers={headers.EVENT: name}, at_ms=1009, data=body)


NAMES = ("session-1", "task-0001")


async def test_what_was_not_heard_is_asked_of_the_stored_output_once(meter: Meter) -> None:
    """Behind what tells of its files; the first start counts."""
    later = Timing(
        accepted_ms=1000, path="on-demand", delivered_ms=5000, claimed_ms=5001, started_ms=5002
    )
    client: Any = Asked(
        "t", event("progress"), event("progress"), event("started", TIMING), event("started", later)
    )
    tti = await meter.tti_of(client, NAMES, None)

    assert tti is not None
    assert (tti.tti_ms, tti.path, tti.measured_by) == (9, "warm", "servers")
    assert client.asked == 3
    assert await meter.tti_of(client, NAMES, None) == tti
    assert client.asked == 3
    assert meter.answer("t").pools == (), "nobody has waited for it here"


async def test_where_no_event_is_left_the_result_says_it_if_it_can(meter: Meter) -> None:
    """Not of a task that was run again, nor of one that never ran; and silent pool-managers are no error."""

    class Silent(Asked):
        async def ask(self, *_: object) -> OutputAnswer:
            raise Unavailable("nobody")

    stored = TaskResult(
        task=NAMES[1], session=NAMES[0], tenant="t", status="ok", attempt=1, timing=TIMING
    )
    silent: Any = Silent()
    tti = await meter.tti_of(silent, NAMES, stored)
    assert tti is not None
    assert (tti.tti_ms, tti.measured_by) == (6, "worker")

    again: Any = Asked("other", event("output"))
    loss = Interruption(cause="process_exit", epoch=1, worker="w", revoked_ms=1)
    change = {"attempt": 2, "interruptions": (loss,)}
    assert await meter.tti_of(again, NAMES, _with(stored, **change)) is None
    never: Any = Asked("third", event("started", TIMING))
    assert await meter.tti_of(never, NAMES, _with(stored, timing=Timing())) is None
    assert never.asked == 0


def _with(stored: TaskResult, **fields: Any) -> TaskResult:
    return msgspec.structs.replace(stored, **fields)
