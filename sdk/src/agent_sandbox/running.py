"""One task of ours: published once, watched until its result is there.

Results are heard at the moment they are stored (`done.…`, subscribed before the publish) and read once a second in
between, so that a message lost on the way costs a second and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

from agent_sandbox.cancelling import bounded, cancel_task
from agent_sandbox.events import Event, Sequencer, Started
from agent_sandbox.objects import drop_objects
from agent_sandbox.orders import Order
from agent_sandbox.publishing import publish_order
from agent_sandbox.results import Result
from shared import messages, subjects
from shared.bus import Bus, Message, Subscription
from shared.errors import InvalidMessage, OutcomeUnknown, Unavailable
from shared.messages import CancelAnswer, TaskResult

READ_EVERY_S = 1.0
READ_TIMEOUT_S = 0.5
LATE_START_S = 0.1
LISTEN_AGAIN_S = 0.2
EVENTS_MAX = 4096
"""Events that wait for a slow reader; what comes after is taken from the result in the end."""
RESULT_GRACE_S = 60.0
"""Beyond a task's deadline, the sweepers' time to write its end."""


class RunningTask:
    """A task that was published. Use it as a context manager, or await `result`: both end its subscriptions."""

    def __init__(self, bus: Bus, order: Order) -> None:
        """Start nothing yet: `start_task` does."""
        self._bus = bus
        self._order = order
        self._made = order.made
        self._called = time.monotonic()
        self._done: asyncio.Future[TaskResult] = asyncio.get_running_loop().create_future()
        self._started_after_s: float | None = None
        self._start_heard = asyncio.Event()
        self._total_s = 0.0
        self._sequencer = Sequencer()
        self._events: asyncio.Queue[Event] = asyncio.Queue(EVENTS_MAX)
        self._keep_events = True
        self._subscriptions: list[Subscription] = []

    @property
    def task_id(self) -> str:
        """Id of the task."""
        return self._order.task

    @property
    def session_id(self) -> str:
        """Id of its session."""
        return self._order.session

    @property
    def has_started(self) -> bool:
        """Whether the first instruction of user code was heard to run."""
        return self._started_after_s is not None

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
        subscriptions, self._subscriptions = self._subscriptions, []
        for subscription in subscriptions:
            await subscription.unsubscribe()

    async def result(self, *, wait_s: float | None = None) -> Result:
        """Wait for the task's one result.

        Args:
            wait_s: longest wait, seconds; None: as long as the task may take by its deadline.

        Raises:
            OutcomeUnknown: no result within that time; the task goes on.
        """
        try:
            async with asyncio.timeout(self._order.wait_s if wait_s is None else wait_s):
                stored = await self._wait_stored()
                await self._wait_late_start(stored)
        except TimeoutError as exc:
            raise OutcomeUnknown(
                f"no result of task {self.task_id} within the wait; it goes on, ask again under this id"
            ) from exc
        finally:
            await self.forget()
        made, self._made = self._made, ()
        await drop_objects(self._bus, self._order.tenant, made)
        return self._to_result(stored)

    async def events(self) -> AsyncIterator[Event]:
        """Yield what happens to the task until its result is there: started, output, recovered, missing.

        One reader only. The result itself comes from `result`.

        Raises:
            OutcomeUnknown: no result within the wait.
        """
        until = time.monotonic() + self._order.wait_s
        waiting = asyncio.ensure_future(self._wait_stored())
        getting: asyncio.Future[Event] | None = None
        try:
            while not waiting.done():
                getting = asyncio.ensure_future(self._events.get())
                left_s = until - time.monotonic()
                await asyncio.wait(
                    {waiting, getting}, timeout=left_s, return_when=asyncio.FIRST_COMPLETED
                )
                if getting.done():
                    yield getting.result()
                    continue
                getting.cancel()
                if not waiting.done() and left_s <= 0:
                    raise OutcomeUnknown(
                        f"no result of task {self.task_id} within the wait; it goes on"
                    )
            stored = waiting.result()
        finally:
            waiting.cancel()
            if getting is not None:
                getting.cancel()
        while not self._events.empty():
            yield self._events.get_nowait()
        for event in self._sequencer.finish(stored):
            yield event

    def ignore_events(self) -> None:
        """Keep no events from now on: nobody will read them."""
        self._keep_events = False

    async def cancel(self, *, wait_s: float = 15.0) -> CancelAnswer:
        """Ask for the task's end, at whatever stage it is.

        Args:
            wait_s: longest wait for an answer, seconds.

        Returns:
            What became of it: `cancelled` comes only after the cancelled result is stored.

        Raises:
            OutcomeUnknown: nobody answered in time.
        """
        return await cancel_task(self._bus, self._order, wait_s=wait_s)

    # --- what is heard ---------------------------------------------------------------------------------------------

    async def listen(self) -> None:
        """Subscribe to the task's result and events: before the publish, so that nothing is missed."""
        names = (self._order.tenant, self._order.session, self._order.task)
        heard = await asyncio.gather(
            self._bus.subscribe(subjects.done(*names), self._hear_result),
            self._bus.subscribe(subjects.output(*names), self._hear_event),
            return_exceptions=True,
        )
        self._subscriptions = [one for one in heard if not isinstance(one, BaseException)]
        for one in heard:
            if isinstance(one, BaseException):
                await self.forget()
                raise one

    def _hear_result(self, message: Message) -> None:
        if self._done.done():
            return
        try:
            stored = messages.decode(message.data, TaskResult)
        except InvalidMessage:  # from a newer system; the read will say so
            return
        self._settle(stored)

    def _hear_event(self, message: Message) -> None:
        for event in self._sequencer.take(message.headers, message.data):
            if isinstance(event, Started) and self._started_after_s is None:
                self._started_after_s = time.monotonic() - self._called
                self._start_heard.set()
            if self._keep_events:
                try:
                    self._events.put_nowait(event)
                except asyncio.QueueFull:  # the reader is too slow: the rest comes from the result
                    self._keep_events = False
                    self._sequencer.lose(event)

    def _settle(self, stored: TaskResult) -> None:
        if not self._done.done():
            self._total_s = time.monotonic() - self._called
            self._done.set_result(stored)

    async def _wait_stored(self) -> TaskResult:
        """Wait for the result: live, or by a read each second. The caller bounds it."""
        while not self._done.done():
            await asyncio.wait({self._done}, timeout=READ_EVERY_S)
            if self._done.done():
                break
            try:
                body = await self._bus.read_result(
                    self._order.tenant,
                    self._order.session,
                    self._order.task,
                    timeout_s=READ_TIMEOUT_S,
                )
            except (Unavailable, OutcomeUnknown):  # no answer now: the next second
                continue
            if body is not None:
                self._settle(messages.decode(body, TaskResult))
        return self._done.result()

    async def _wait_late_start(self, stored: TaskResult) -> None:
        """Give the `started` event a moment: it comes another way than the result, and may be overtaken by it."""
        if stored.timing.started_ms and not self._start_heard.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LATE_START_S):
                    await self._start_heard.wait()

    def _to_result(self, stored: TaskResult) -> Result:
        return Result(raw=stored, tti_s=self._started_after_s, total_s=self._total_s)


async def _listen_until(running: RunningTask, until: float) -> None:
    """Subscribe, and again where a server died meanwhile: another takes the connection over in a moment."""
    while True:
        try:
            return await running.listen()
        except Unavailable:
            if time.monotonic() + LISTEN_AGAIN_S >= until:
                raise
        await asyncio.sleep(LISTEN_AGAIN_S)


async def start_task(bus: Bus, order: Order, *, deadline_s: float) -> RunningTask:
    """Publish a task and return it as soon as it is accepted.

    Args:
        bus: connection.
        order: what to publish.
        deadline_s: longest wait for the acceptance, seconds; tries go under the same id.

    Raises:
        LimitExceeded: body too large, or the lane is full; it was not accepted.
        Rejected: no such pool; it was not accepted.
        Unavailable: no server answered at all; it was not published.
        OutcomeUnknown: no answer; it may have been accepted.
    """
    running = RunningTask(bus, order)
    until = time.monotonic() + deadline_s
    await _listen_until(running, until)
    try:
        await publish_order(bus, order, until)
    except BaseException:
        await running.forget()
        raise
    return running


async def finish(task: RunningTask, *, cancel_with_caller: bool) -> Result:
    """Wait for a task's result; on the caller's cancellation cancel the task if asked to, else leave it."""
    task.ignore_events()
    try:
        return await task.result()
    except asyncio.CancelledError:
        if cancel_with_caller:
            await bounded(task.cancel())
        raise
