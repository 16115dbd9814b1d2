"""What a running task leaves behind when it cannot be listened to, or nobody listens any more."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from agent_sandbox import ClientOptions, SyncClient
from agent_sandbox.client import Client
from agent_sandbox.events import Started
from agent_sandbox.orders import Order
from agent_sandbox.over_nats import NatsTransport
from agent_sandbox.results import NoResultYet
from agent_sandbox.running import RunningTask
from agent_sandbox.starting import start_task
from agent_sandbox.sync.parts import SyncTask
from agent_sandbox.sync.session import SyncSession
from shared.bus import PubAck
from shared.errors import Unavailable
from shared.messages import TaskResult, Timing


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


ORDER = Order(
    tenant="t",
    session="session-1",
    task="task-0001",
    body=b"",
    wait_s=60.0,
    pool="p",
)


def running(bus: Any) -> RunningTask:
    """Return a task that is not published."""
    return RunningTask(NatsTransport(bus, "t"), ORDER)


async def test_a_task_that_cannot_be_heard_keeps_no_subscription() -> None:
    """One of two was taken; the error comes out as it is."""
    bus = FakeBus()
    with pytest.raises(Unavailable):
        await running(bus).watch.listen()

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


class MovingBus:
    """Loses its server, and finds another."""

    def __init__(self, refusals: int) -> None:
        """Refuse so many subscriptions."""
        self.refusals = refusals
        self.published: list[str] = []

    async def subscribe(self, *_: Any) -> FakeSubscription:
        """Refuse while there is no server."""
        if self.refusals:
            self.refusals -= 1
            raise Unavailable("no answer")
        return FakeSubscription()

    async def publish_acked(self, *_: Any, message_id: str, **__: Any) -> PubAck:
        """Take it."""
        self.published.append(message_id)
        return PubAck("WQ", len(self.published))


async def test_a_server_that_dies_before_the_publish_is_no_error() -> None:
    """The subscriptions are tried again on the next server; the task is published once, within the caller's deadline."""
    bus: Any = MovingBus(refusals=3)
    await start_task(NatsTransport(bus, "t"), ORDER, deadline_s=5)

    assert bus.published == [f"{ORDER.session}:{ORDER.task}"]


async def test_no_server_at_all_is_an_error_at_the_deadline() -> None:
    """Nothing was published, and the error says so."""
    bus: Any = MovingBus(refusals=1000)
    with pytest.raises(Unavailable):
        await start_task(NatsTransport(bus, "t"), ORDER, deadline_s=0.3)

    assert bus.published == []


async def test_waits_for_a_task_end_when_its_client_is_closed() -> None:
    """They would last as long as the task may take: a result can't come any more."""
    task = running(FakeBus())
    waiting = asyncio.ensure_future(task.result())
    reading = asyncio.ensure_future(anext(task.events()))
    await asyncio.sleep(0)
    task.abandon("the client was closed")

    with pytest.raises(NoResultYet, match="the client was closed"):
        await waiting
    with pytest.raises(NoResultYet):
        await reading


async def test_a_start_that_the_result_overtook_is_no_later_than_the_total() -> None:
    """It is waited for a moment; what took longer to start than to end would be nonsense."""
    task = running(FakeBus())
    waiting = asyncio.ensure_future(task.result())
    task.settle(
        TaskResult(
            task=ORDER.task,
            session=ORDER.session,
            tenant="t",
            status="ok",
            kind="command",
            timing=Timing(started_ms=1),
        )
    )
    await asyncio.sleep(0.01)
    task.hear_start(Started(attempt=1))
    result = await waiting

    assert result.tti_s is not None
    assert 0.01 <= result.tti_s <= result.total_s


class HalfBus:
    """Confirms the first subscription; the second waits for ever."""

    def __init__(self) -> None:
        """Have none."""
        self.taken: list[FakeSubscription] = []
        self.half = asyncio.Event()

    async def subscribe(self, *_: Any) -> FakeSubscription:
        """Take the first."""
        if self.taken:
            self.half.set()
            await asyncio.Event().wait()
        self.taken.append(FakeSubscription())
        return self.taken[0]


async def test_a_caller_who_is_cancelled_while_one_of_two_is_heard_leaves_no_subscription() -> None:
    """Else it would hear for as long as its client is open."""
    bus = HalfBus()
    listening = asyncio.ensure_future(running(bus).watch.listen())
    await bus.half.wait()
    listening.cancel()
    await asyncio.wait({listening})

    assert listening.cancelled()
    assert [one.ended for one in bus.taken] == [True]


class ClosedTransport(NatsTransport):
    """Knows whether it was closed."""

    is_closed = False

    async def close(self) -> None:
        """Close."""
        self.is_closed = True


async def test_what_is_held_names_itself_and_no_secret() -> None:
    """In a notebook, a log, a debugger."""
    options = ClientOptions(servers=("https://g",), token="hush")
    client = Client(options)
    task = RunningTask(NatsTransport(cast("Any", None), "t"), ORDER)

    assert repr(client.session("session-1")) == "Session('session-1')"
    assert repr(client) == f"Client({options!r})"
    assert repr(SyncClient(options)) == f"SyncClient({options!r})"
    assert "hush" not in repr(client)
    assert repr(task) == f"RunningTask('{ORDER.task}', session_id='{ORDER.session}')"
    for twin, one in (
        (SyncSession(cast("Any", None), client.session("session-1")), client.session("session-1")),
        (SyncTask(cast("Any", None), task), task),
    ):
        assert repr(twin).removeprefix("Sync") == repr(one).removeprefix("Running")


async def test_a_client_is_closed_also_where_a_task_can_not_be_forgotten() -> None:
    """Else its connection stays open for as long as the program."""

    class BadSubscription(FakeSubscription):
        async def unsubscribe(self) -> None:
            raise Unavailable("no answer")

    class BadBus:
        async def subscribe(self, *_: Any) -> FakeSubscription:
            return BadSubscription()

    bus: Any = BadBus()
    client, transport = Client(), ClosedTransport(bus, "t")
    client._transport = transport
    watched = RunningTask(transport, ORDER)
    client._watched.add(watched)
    await watched.watch.listen()
    with pytest.raises(Unavailable, match="no answer"):
        await client.__aexit__(None, None, None)

    assert transport.is_closed
