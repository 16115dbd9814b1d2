"""Streams of a task's events that go on for as long as it does: how many, how slow, and how they end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import Any

import msgspec

from agent_sandbox import Client, RunningTask
from agent_sandbox.events import Event
from agent_sandbox.positions import parse_position
from agent_sandbox.telling import told, told_result
from gateway.adapters.http.answers import ProblemError
from gateway.adapters.http.views import view_of
from gateway.adapters.measuring import Meter
from gateway.core.problems import problem
from shared.errors import NotFound
from shared.rest import StreamEvent

ALIVE_S = 15.0
"""A stream on which nothing happens says so often that its reader is still heard."""
STALL_S = 60.0
"""A reader that takes nothing for so long is gone; one that is not goes on from where it was."""
LIVE_BYTES_MAX = 256 * 1024
"""Held for one slow reader. What comes on top is read again from where it is stored."""
KNOWN_S = 2.0
"""A task that nobody has heard of may become known so long."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Which stream is asked for."""

    session: str
    task: str
    after: str | None
    accepted_ms: int | None


class Streams:
    """All streams of this gateway."""

    def __init__(self, tenant_streams_max: int) -> None:
        """Let each tenant have so many at once."""
        self._most = tenant_streams_max
        self._open: Counter[str] = Counter()
        self.leaving = asyncio.Event()

    def leave(self) -> None:
        """End all streams: their readers go on at another gateway."""
        self.leaving.set()

    @contextmanager
    def place(self, tenant: str) -> Iterator[None]:
        """Take one of the tenant's places.

        Raises:
            ProblemError: they are taken, or the gateway is about to leave.
        """
        if self.leaving.is_set():
            raise ProblemError(problem(503, "draining", "this gateway is leaving; ask another"))
        if self._open[tenant] >= self._most:
            said = f"{self._most} streams of this tenant are open (tenant_streams_max)"
            raise ProblemError(problem(429, "too_many_requests", said))
        self._open[tenant] += 1
        try:
            yield
        finally:
            self._open[tenant] -= 1

    async def pump(
        self,
        events: AsyncGenerator[StreamEvent, None],
        send: Callable[[StreamEvent | None], Awaitable[None]],
        gone: Awaitable[object],
    ) -> bool:
        """Send events until the last one, until the reader is gone or too slow, or this gateway leaves.

        Args:
            events: what to send.
            send: sends one; None: a sign of life.
            gone: returns when the reader is gone.

        Returns:
            Whether the last one was sent.
        """
        ends = (asyncio.ensure_future(gone), asyncio.ensure_future(self.leaving.wait()))
        following: asyncio.Future[StreamEvent | None] | None = None
        waits: tuple[asyncio.Future[Any], ...]
        try:
            while not any(end.done() for end in ends):
                if following is None:
                    following = asyncio.ensure_future(anext(events, None))
                waits = (following, *ends)
                await asyncio.wait(waits, timeout=ALIVE_S, return_when=asyncio.FIRST_COMPLETED)
                event = None
                if following.done():
                    event, following = following.result(), None
                    if event is None:
                        return True
                if not any(end.done() for end in ends):
                    async with asyncio.timeout(STALL_S):
                        await send(event)
        except TimeoutError:  # it takes nothing any more
            pass
        finally:
            waits = ends if following is None else (following, *ends)
            for wait in waits:
                wait.cancel()
            await asyncio.wait(waits)
            await events.aclose()
        return False


def is_behind_all(asked: Asked) -> bool:
    """Return whether its reader has had the last event.

    Raises:
        InvalidMessage: `after` is no position in this task's events.
    """
    return asked.after is not None and parse_position(asked.after, asked.task).ended


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
            if not asked.after:  # else it was known when the position was checked
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
