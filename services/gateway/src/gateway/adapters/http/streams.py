"""Streams of a task's events that go on for as long as it does: how many, how slow, and how they end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from typing import Literal

import msgspec

from agent_sandbox import Client, RunningTask
from agent_sandbox.events import Event
from agent_sandbox.positions import START, parse_position
from agent_sandbox.telling import told, told_result
from gateway.adapters.http.answers import ProblemError
from gateway.adapters.http.views import view_of
from gateway.adapters.measuring import Meter
from gateway.core.problems import problem
from shared import logs
from shared.errors import NotFound, ServiceError
from shared.rest import StreamEvent

log = logs.get(__name__)

ALIVE_S = 15.0
"""A stream on which nothing happens says so often that its reader is still heard."""
STALL_S = 60.0
"""A reader that takes nothing for so long is gone; one that is not goes on from where it was."""
READY_BYTES_MAX = 64 * 1024
"""Sent at once; an event on top of it may be as large as any."""
LIVE_BYTES_MAX = 256 * 1024
"""Held for one slow reader. What comes on top is read again from where it is stored."""
KNOWN_S = 2.0
"""A task that nobody has heard of may become known so long."""


End = Literal["done", "gone", "stalled", "leaving", "withdrawn", "broken"]
"""How a stream ended: behind its last event; its reader is gone, or takes nothing; this gateway leaves; its token does not
let in any more; its events can't be had any further here."""


class Reader(msgspec.Struct, frozen=True, kw_only=True):
    """Who takes a stream."""

    write: Callable[[StreamEvent], bytes]
    """Returns an event as it is sent."""
    send: Callable[[list[bytes]], Awaitable[None]]
    """Sends all that are ready, in order; none: a sign of life."""
    gone: Awaitable[object]
    """Returns when he is gone."""
    withdrawn: asyncio.Event
    """His token does not let in any more."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Which stream is asked for."""

    session: str
    task: str
    after: str | None
    accepted_ms: int | None


class Streams:
    """All streams of this gateway."""

    def __init__(
        self, tenant_streams_max: int, changed: Callable[[int], None] = lambda _count: None
    ) -> None:
        """Let each tenant have so many at once; `changed` is told how many all have together."""
        self._most = tenant_streams_max
        self._changed = changed
        self._open: Counter[str] = Counter()
        self.leaving = asyncio.Event()

    def leave(self) -> None:
        """End all streams: their readers go on at another gateway."""
        self.leaving.set()

    def has_place(self, tenant: str) -> bool:
        """Return whether the tenant may have one more."""
        return self._open[tenant] < self._most

    @contextmanager
    def place(self, tenant: str) -> Iterator[None]:
        """Take one of the tenant's places.

        Raises:
            ProblemError: they are taken, or the gateway is about to leave.
        """
        if self.leaving.is_set():
            raise ProblemError(problem(503, "draining", "this gateway is leaving; ask another"))
        if not self.has_place(tenant):
            said = f"{self._most} streams of this tenant are open (tenant_streams_max)"
            raise ProblemError(problem(429, "too_many_requests", said))
        self._change(tenant, 1)
        try:
            yield
        finally:
            self._change(tenant, -1)

    def _change(self, tenant: str, by: int) -> None:
        self._open[tenant] += by
        if not self._open[tenant]:
            del self._open[tenant]
        self._changed(self._open.total())

    async def pump(self, events: AsyncGenerator[StreamEvent, None], reader: Reader) -> End:
        """Send events until the last one, or until something else ends it; return what did."""
        ready = _Ready()
        filling = asyncio.create_task(ready.fill(events, reader.write), name="stream")
        gone = asyncio.ensure_future(reader.gone)
        ends = [asyncio.ensure_future(one.wait()) for one in (self.leaving, reader.withdrawn)]
        for each in (filling, gone, *ends):
            each.add_done_callback(lambda _: ready.changed.set())
        try:
            while True:
                await _moment(ready.changed)
                if reader.withdrawn.is_set():
                    return "withdrawn"
                if self.leaving.is_set():
                    return "leaving"
                if gone.done():
                    gone.result()
                    return "gone"
                is_last, pieces = filling.done(), ready.take()
                if (pieces or not is_last) and not await _is_taken(reader, pieces):
                    return "stalled"
                if is_last:
                    return _end_of(filling)
        finally:
            for each in (filling, gone, *ends):
                each.cancel()
            await asyncio.wait((filling, gone, *ends))
            await events.aclose()


class _Ready:
    """What can be sent at once, in one piece: whoever fills it waits while there is much."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self._pieces: list[bytes] = []
        self._bytes = 0
        self._taken = asyncio.Event()

    async def fill(
        self, events: AsyncGenerator[StreamEvent, None], write: Callable[[StreamEvent], bytes]
    ) -> None:
        """Put events here until the last one."""
        async for event in events:
            piece = write(event)
            self._pieces.append(piece)
            self._bytes += len(piece)
            self.changed.set()
            if self._bytes >= READY_BYTES_MAX:
                self._taken.clear()
                await self._taken.wait()

    def take(self) -> list[bytes]:
        """Take all."""
        self.changed.clear()
        pieces, self._pieces, self._bytes = self._pieces, [], 0
        self._taken.set()
        return pieces


async def _is_taken(reader: Reader, pieces: list[bytes]) -> bool:
    """Send pieces; return whether they were taken in time."""
    try:
        async with asyncio.timeout(STALL_S):
            await reader.send(pieces)
    except TimeoutError:
        return False
    return True


def _end_of(filling: asyncio.Task[None]) -> End:
    """Return how the reading of events ended. An error is no fault of the reader: he goes on from where he was."""
    try:
        filling.result()
    except ServiceError as exc:
        log.warning("stream.broke", error=str(exc), code=exc.code)
        return "broken"
    return "done"


async def _moment(changed: asyncio.Event) -> None:
    """Wait until something has changed, or a sign of life is due."""
    with suppress(TimeoutError):
        async with asyncio.timeout(ALIVE_S):
            await changed.wait()


def is_behind_all(asked: Asked) -> bool:
    """Return whether its reader has had the last event.

    Raises:
        InvalidMessage: `after` is no position in this task's events.
    """
    return asked.after is not None and parse_position(asked.after, asked.task).ended


def _is_from_start(asked: Asked) -> bool:
    return not asked.after or parse_position(asked.after, asked.task) == START


@asynccontextmanager
async def open_events(
    client: Client, meter: Meter, asked: Asked
) -> AsyncIterator[AsyncGenerator[StreamEvent, None]]:
    """Yield the events of a task that is known, its result last; whether they are read or not, nothing is left behind.

    Raises:
        InvalidMessage: `after` is no position in this task's events.
        NotFound: nothing is known of it.
        ServiceError: others as `Client.attach`.
    """
    running = await client.attach(
        asked.task, session_id=asked.session, after=asked.after, live_bytes_max=LIVE_BYTES_MAX
    )
    async with running, aclosing(running.events()) as events:
        first = asyncio.ensure_future(anext(events, None))
        try:
            if _is_from_start(asked):  # else it was known when the position was checked
                await _known(client, meter, asked, first)
            async with aclosing(_told(running, events, first)) as all_told:
                yield all_told
        finally:
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)


async def _told(
    running: RunningTask, events: AsyncGenerator[Event, None], first: asyncio.Future[Event | None]
) -> AsyncGenerator[StreamEvent, None]:
    event = await first
    while event is not None:
        yield told(event, running.task_id)
        event = await anext(events, None)
    yield told_result((await running.result()).raw)


async def _known(
    client: Client, meter: Meter, asked: Asked, first: asyncio.Future[Event | None]
) -> None:
    """Return when something is known of the task: it says something, or others know it."""
    until = asyncio.get_running_loop().time() + KNOWN_S
    while not first.done():
        try:
            await view_of(client, meter, (asked.session, asked.task), asked.accepted_ms)
        except NotFound:
            left_s = until - asyncio.get_running_loop().time()
            if left_s <= 0:
                raise
            await asyncio.wait((first,), timeout=min(left_s, 0.3))
        else:
            return
