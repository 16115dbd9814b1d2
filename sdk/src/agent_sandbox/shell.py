"""A program in a terminal, and whoever sits before it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from agent_sandbox.events import Event, Missing, Output, Recovered, Started
from agent_sandbox.keys import Keyboard
from agent_sandbox.leaving import bounded
from agent_sandbox.results import Result
from agent_sandbox.running import RunningTask
from agent_sandbox.transport import Transport
from shared.errors import OutcomeUnknown, ServiceError, Unavailable

LEAVE_S = 5.0
"""After the hang-up a program gets so long to end; then it is cancelled."""
IS_OVER_S = 0.5


class Seat:
    """Where somebody sits: the task, and what is known of its terminal."""

    def __init__(self, running: RunningTask, worker: str = "") -> None:
        """Sit before a task; `worker` runs it, where that is known."""
        self.running = running
        self.worker = worker


class Shell:
    """A program in a terminal. Use it as a context manager; iterate over it for what the terminal shows.

    At the end of the context the terminal is hung up, as when a window is closed, unless the program has ended or
    `detach` was called.
    """

    def __init__(self, transport: Transport, sit: Callable[[], Awaitable[Seat]]) -> None:
        """Nothing happens before the context is entered; then `sit` publishes the task, or finds it."""
        self._transport = transport
        self._sit = sit
        self._detached = False
        self._is_old = False
        self._running: RunningTask | None = None
        self._keyboard: Keyboard | None = None
        self._events: AsyncGenerator[Event, None] | None = None

    @property
    def is_old(self) -> bool:
        """Whether it ran already when it was entered."""
        return self._is_old

    @property
    def task(self) -> RunningTask:
        """The task that runs in the terminal.

        Raises:
            RuntimeError: the context is not entered.
        """
        if self._running is None:
            raise RuntimeError("use it in `async with session.shell() as shell:`")
        return self._running

    async def __aenter__(self) -> Self:
        """Start it, or attach to it; returns when its program runs (or has ended without).

        Raises:
            ServiceError: it could not be published, or found.
            OutcomeUnknown: it does not start within its deadline.
        """
        seat = await self._sit()
        running = self._running = seat.running
        self._keyboard = Keyboard(
            self._transport.tell_terminal, running.session_id, running.task_id, self._is_over
        )
        self._events = running.events()
        self._keyboard.worker = seat.worker
        self._is_old = bool(seat.worker)
        try:
            while not self._keyboard.worker and (await self._next()) is not None:
                pass
        except BaseException:
            if not self._is_old:  # nobody would ever sit before it
                await bounded(running.cancel())
            await self._leave()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Hang up, unless it was detached or has ended."""
        try:
            if not self._detached and not await self._is_over():
                await self._end()
        finally:
            await self._leave()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield what the terminal shows, raw, until its program has ended. One reader only."""
        while (event := await self._next()) is not None:
            if isinstance(event, Output):
                yield event.data

    async def write(self, data: str | bytes) -> None:
        """Type; returns when the terminal has it. `"\\x03"` is ^C, `"\\x04"` ^D, `"\\r"` or `"\\n"` the enter key.

        Raises:
            NotFound: the program has ended.
            OutcomeUnknown: no answer for long; a part may have been typed.
        """
        await self._keys().type(data.encode() if isinstance(data, str) else data)

    async def resize(self, rows: int, cols: int) -> None:
        """Say that the window has another size now, in characters.

        Raises:
            InvalidMessage: above the bound (named).
            NotFound: the program has ended.
        """
        await self._keys().say(size=(rows, cols))

    async def hang_up(self) -> None:
        """Close the window: the programs in the terminal get SIGHUP, and most of them end.

        Raises:
            NotFound: the program has ended.
        """
        await self._keys().say(hang_up=True)

    def detach(self) -> None:
        """Leave the program running at the end of the context; `Session.attach` comes back to it."""
        self._detached = True

    async def result(self, *, wait_s: float | None = None) -> Result:
        """Wait for the program's end, which a reader of the output comes to by itself.

        Raises:
            OutcomeUnknown: no result within the wait.
        """
        return await self.task.result(wait_s=wait_s)

    async def events(self) -> AsyncIterator[Event]:
        """Yield what happens, in place of the bytes alone: output, a loss of its worker, what is missing."""
        while (event := await self._next()) is not None:
            if isinstance(event, Output | Recovered | Missing):
                yield event

    def _keys(self) -> Keyboard:
        if self._keyboard is None:
            raise RuntimeError("use it in `async with session.shell() as shell:`")
        return self._keyboard

    async def _next(self) -> Event | None:
        assert self._events is not None
        assert self._keyboard is not None
        event = await anext(self._events, None)
        if isinstance(event, Started):
            self._keyboard.worker = event.worker
        return event

    async def _is_over(self) -> bool:
        running = self.task
        try:
            stored = await self._transport.read_result(
                running.session_id, running.task_id, timeout_s=IS_OVER_S
            )
        except (Unavailable, OutcomeUnknown):
            return False
        return stored is not None

    async def _end(self) -> None:
        with suppress(ServiceError, TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                await self.hang_up()
        try:
            await self.task.result(wait_s=LEAVE_S)
        except OutcomeUnknown:
            await self.task.cancel()

    async def _leave(self) -> None:
        if self._events is not None:
            await self._events.aclose()
        await self.task.forget()
