"""What a running task leaves behind when it cannot be listened to, or nobody listens any more."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agent_sandbox.orders import Order
from agent_sandbox.running import RunningTask
from shared.errors import Unavailable


class FakeSubscription:
    """Knows whether it was ended."""

    def __init__(self) -> None:
        """Hear."""
        self.ended = False

    async def unsubscribe(self) -> None:
        """End."""
        self.ended = True


class FakeBus:
    """Takes one subscription, refuses the next."""

    def __init__(self) -> None:
        """Have none."""
        self.taken: list[FakeSubscription] = []

    async def subscribe(self, *_: Any) -> FakeSubscription:
        """Take the first."""
        if self.taken:
            raise Unavailable("no answer")
        self.taken.append(FakeSubscription())
        return self.taken[0]


def running(bus: Any) -> RunningTask:
    """Return a task that is not published."""
    return RunningTask(
        bus,
        Order(
            tenant="t",
            session="session-1",
            task="task-0001",
            subject="",
            body=b"",
            wait_s=60.0,
            pool="p",
        ),
    )


async def test_a_task_that_cannot_be_heard_keeps_no_subscription() -> None:
    """One of two was taken; the error comes out as it is."""
    bus = FakeBus()
    with pytest.raises(Unavailable):
        await running(bus).listen()

    assert [one.ended for one in bus.taken] == [True]


async def test_a_reader_of_events_that_is_cancelled_leaves_no_waiter() -> None:
    """Else each would stay for as long as the program."""
    before = asyncio.all_tasks()
    events = running(FakeBus()).events()
    reading = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0.01)
    reading.cancel()
    await asyncio.wait({reading})
    await asyncio.sleep(0.01)

    assert asyncio.all_tasks() == before
