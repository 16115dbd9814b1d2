"""One task of ours: published once, watched until its result is there.

Results are heard at the moment they are stored (listened for before the publish) and asked for once a second in
between, so that a message lost on the way costs a second and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Self

from agent_sandbox.events import Event, Started
from agent_sandbox.leaving import bounded
from agent_sandbox.orders import Order
from agent_sandbox.results import NoResultYet, Result
from agent_sandbox.tracing import CallSpan, NoSpan, begin_call, status_of
from agent_sandbox.transport import NEW, Transport, View
from shared.errors import OutcomeUnknown, Unavailable
from shared.messages import CancelAnswer, TaskResult
from shared.rest import Tti
from shared.tti import make_tti

READ_EVERY_S = 1.0
DROP_BOUND_S = 5.0
LATE_START_S = 0.1
RESULT_GRACE_S = 60.0
"""Beyond a task's deadline, the sweepers' time to write its end."""


class RunningTask:
    """A task that was published. Use it as a context manager, or await `result`: both end its watch."""

    def __init__(
        self,
        transport: Transport,
        order: Order,
        called: float | None = None,
        view: View = NEW,
    ) -> None:
        """Start nothing yet: `start_task` and `attach_task` do.

        Args:
            transport: the way there.
            order: what to publish.
            called: when the caller's call began, by the monotonic clock; None: now.
            view: from where on it is watched.
        """
        self._transport = transport
        self._order = order
        self.span: CallSpan = NoSpan() if view.after is not None else begin_call(order)
        self.watch = transport.watch(order, self, view)
        self._is_ours = view.after is None
        self._called = time.monotonic() if called is None else called
        self._done: asyncio.Future[TaskResult] = asyncio.get_running_loop().create_future()
        self._started_after_s: float | None = None
        self._start_heard = asyncio.Event()
        self._tti: Tti | None = None
        self._pool = order.pool or ""
        self._total_s = 0.0

    def __repr__(self) -> str:
        """Name it."""
        return f"RunningTask({self.task_id!r}, session_id={self.session_id!r})"

    @property
    def task_id(self) -> str:
        """Id of the task."""
        return self._order.task

    @property
    def session_id(self) -> str:
        """Id of its session."""
        return self._order.session

    @property
    def tenant(self) -> str:
        """Whose it is."""
        return self._order.tenant

    @property
    def pool(self) -> str:
        """Its pool; empty: a later task of a session that was not heard to start."""
        return self._pool

    @property
    def has_started(self) -> bool:
        """Whether the first instruction of user code was heard to run."""
        return self._start_heard.is_set()

    @property
    def stored(self) -> TaskResult | None:
        """The result; None: it was not heard of yet."""
        if not self._done.done() or self._done.exception() is not None:
            return None
        return self._done.result()

    @property
    def tti(self) -> Tti | None:
        """Time from the call to the first instruction of user code; None: not heard."""
        return self._tti

    async def __aenter__(self) -> Self:
        """Return the task itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop listening; the task goes on."""
        await self.forget()

    async def forget(self) -> None:
        """Stop listening; the task goes on, its result can be read later by its id."""
        try:
            await self.watch.close()
            self.span.end("")
        finally:
            if self.stored is not None:
                await self._drop_made()

    async def result(self, *, wait_s: float | None = None) -> Result:
        """Wait for the task's one result.

        Args:
            wait_s: longest wait, seconds; None: as long as the task may take by its deadline.

        Raises:
            NoResultYet: no result within that time (a `TimeoutError`, too), or the client was closed; the task goes on.
        """
        try:
            async with asyncio.timeout(self._order.wait_s if wait_s is None else wait_s):
                stored = await self._wait_stored()
                await self._wait_late_start(stored)
        except NoResultYet:
            raise
        except TimeoutError as exc:
            raise NoResultYet(self.task_id, self.session_id, "the wait is over") from exc
        finally:
            await self.forget()
        return self._to_result(stored)

    async def started(self, *, wait_s: float, ask: bool = True) -> bool:
        """Wait until the first instruction of user code was heard to run, or the result is there.

        Args:
            wait_s: longest wait, seconds.
            ask: ask for the result once a second, since what would be heard may be lost on the way; False: only hear,
                for waits that are long and many.

        Returns:
            Whether one of both came in time; `tti` and `stored` say which.

        Raises:
            InvalidMessage: the result is a newer system's.
        """
        waits = {
            asyncio.ensure_future(self._wait_stored() if ask else asyncio.shield(self._done)),
            asyncio.ensure_future(self._start_heard.wait()),
        }
        try:
            done, _ = await asyncio.wait(waits, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
            for wait in done:
                wait.result()
            if self.stored is not None:
                await self._wait_late_start(self.stored)
        finally:
            for wait in waits:
                wait.cancel()
        return self.has_started or self.stored is not None

    async def events(self) -> AsyncGenerator[Event, None]:
        """Yield what happens to the task until its result is there: started, output, recovered, missing.

        One reader only. The result itself comes from `result`.

        Raises:
            NoResultYet: no result within the wait, or the client was closed; the task goes on.
        """
        until = asyncio.get_running_loop().time() + self._order.wait_s
        waiting = asyncio.ensure_future(self._wait_stored())
        events = self.watch.events(waiting)
        try:
            while True:
                async with asyncio.timeout_at(until):
                    event = await anext(events, None)
                if event is None:
                    return
                yield event
        except NoResultYet:
            raise
        except TimeoutError as exc:
            raise NoResultYet(self.task_id, self.session_id, "the wait is over") from exc
        finally:
            waiting.cancel()
            await events.aclose()

    def ignore_events(self) -> None:
        """Keep no events from now on: nobody will read them."""
        self.watch.mute()

    async def cancel(self, *, wait_s: float = 15.0) -> CancelAnswer:
        """Ask for the task's end, at whatever stage it is.

        Args:
            wait_s: longest wait for an answer, seconds.

        Returns:
            What became of it: `cancelled` comes only after the cancelled result is stored.

        Raises:
            OutcomeUnknown: nobody answered in time.
        """
        answer = await self._transport.cancel(self._order, wait_s=wait_s)
        if answer.outcome in ("cancelled", "finished"):
            await self._drop_made()
        return answer

    # --- what is heard ---------------------------------------------------------------------------------------------

    def hear_start(self, started: Started) -> None:
        """Take from the watch that user code runs."""
        if self._is_ours and not self._start_heard.is_set():
            self._started_after_s = time.monotonic() - self._called
            self._tti = make_tti(started.timing, self._started_after_s * 1000)
        self._pool = self._pool or started.pool
        self._start_heard.set()

    def settle(self, stored: TaskResult) -> None:
        """Take the result from the watch."""
        if not self._done.done():
            self._total_s = time.monotonic() - self._called
            self._done.set_result(stored)
            self.span.end(status_of(stored))

    def abandon(self, why: str) -> None:
        """End every wait for the result: it can't come any more."""
        if not self._done.done():
            self._done.set_exception(NoResultYet(self.task_id, self.session_id, why))
            self._done.exception()  # where nobody waits, nobody needs to be told

    async def _drop_made(self) -> None:
        """Remove what was made for the task alone: it has ended."""
        if ids := self._order.made.take():
            await bounded(self._transport.drop_objects(ids), DROP_BOUND_S)

    async def _wait_stored(self) -> TaskResult:
        """Wait for the result: live, or by a read each second. The caller bounds it."""
        pause_s = READ_EVERY_S if self._is_ours else 0.0  # others' tasks may have ended long ago
        while not self._done.done():
            await asyncio.wait({self._done}, timeout=pause_s)
            pause_s = READ_EVERY_S
            if self._done.done():
                break
            try:
                stored = await self.watch.read()
            except (Unavailable, OutcomeUnknown):  # no answer now: the next second
                continue
            if stored is not None:
                self.settle(stored)
        return self._done.result()

    async def _wait_late_start(self, stored: TaskResult) -> None:
        """Give the `started` event a moment: it comes another way than the result, and may be overtaken by it."""
        if self._is_ours and stored.timing.started_ms and not self._start_heard.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LATE_START_S):
                    await self._start_heard.wait()

    def _to_result(self, stored: TaskResult) -> Result:
        total_s = max(self._total_s, self._started_after_s or 0.0)  # a late start is waited for
        return Result(raw=stored, tti_s=self._started_after_s, tti=self._tti, total_s=total_s)


async def finish(
    task: RunningTask, *, cancel_with_caller: bool, wait_s: float | None = None
) -> Result:
    """Wait for a task's result; on the caller's cancellation cancel the task if asked to, else leave it."""
    task.ignore_events()
    try:
        return await task.result(wait_s=wait_s)
    except asyncio.CancelledError:
        if cancel_with_caller:
            await bounded(task.cancel())
        raise
