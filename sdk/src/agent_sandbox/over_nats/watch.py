"""What is heard of one task on NATS: its result at the moment it is stored, its output and events as they are sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress

from agent_sandbox.events import Event, Here
from agent_sandbox.orders import Order
from agent_sandbox.over_nats.publishing import publish_order
from agent_sandbox.over_nats.replay import Replay, check_position
from agent_sandbox.sequencer import Sequencer, read_event, started_of
from agent_sandbox.transport import Ear, View
from shared import headers, messages, subjects
from shared.bus import Bus, Message, Subscription
from shared.errors import InvalidMessage
from shared.messages import TaskResult

READ_TIMEOUT_S = 0.5
NOTHING_S = 1.0
"""Of a task of which nothing is heard for so long since its publish, what it may have said is asked for, once."""


class NatsWatch:
    """Two subscriptions, and the result's read (see `Watch`)."""

    def __init__(self, bus: Bus, order: Order, ear: Ear, view: View) -> None:
        """Hear nothing yet: `listen` does."""
        self._bus = bus
        self._order = order
        self._names = (order.tenant, order.session, order.task)
        self._ear = ear
        self._sequencer = Sequencer(order.task, view.after, live_bytes_max=view.live_bytes_max)
        self._after = view.after
        self._heard = asyncio.Event()
        self._muted = False
        self._subscriptions: list[Subscription] = []

    async def listen(self) -> None:
        """Subscribe to the task's result and events.

        Raises:
            Unavailable: not connected; no subscription is left.
            InvalidMessage: the task is not yet where the reader says that he was.
            NotFound: there is no such task (any more), and he says that he has read of it.
        """
        try:
            await self._subscribe_both()
            if self._after is not None and self._after.epoch:
                await check_position(self._bus, self._names, self._after)
        except BaseException:
            await self.close()
            raise

    async def publish(self, until: float) -> None:
        """Publish the task; see `publish_order`."""
        await publish_order(self._bus, self._order, until)

    def accepted(self) -> None:
        """Do nothing: subjects are heard before anybody speaks on them."""

    async def read(self) -> TaskResult | None:
        """Read the result: a message may have been lost on the way.

        Raises:
            Unavailable: not connected.
            OutcomeUnknown: no answer.
        """
        body = await self._bus.read_result(*self._names, timeout_s=READ_TIMEOUT_S)
        return None if body is None else messages.decode(body, TaskResult)

    async def events(self, result: asyncio.Future[TaskResult]) -> AsyncGenerator[Event, None]:
        """Yield what happens, in order and each once; end behind what `result` brings."""
        if self._after is not None and self._after.ended:
            await result
            return
        sequencer = self._sequencer
        replay = Replay(self._bus, self._names, sequencer)
        result.add_done_callback(lambda _: self._heard.set())
        has_waited = self._after is not None
        while True:
            self._heard.clear()
            while (events := sequencer.pop()) is not None:
                replay.went_on()
                for event in events:
                    yield event
            ended = result.result() if result.done() else None
            if ended is not None and (replay.is_over or not sequencer.is_short_of(ended)):
                break
            if ended is not None or sequencer.is_stuck:
                await replay.step(ended)
            elif has_waited:
                await self._heard.wait()  # a message or the result; the caller bounds it
            else:
                has_waited = True
                sequencer.behind = not await self._hears_soon()
        for event in sequencer.finish(result.result()):
            yield event

    def mute(self) -> None:
        """Keep nothing for `events` from now on."""
        self._muted = True

    async def close(self) -> None:
        """End the subscriptions."""
        subscriptions, self._subscriptions = self._subscriptions, []
        for subscription in subscriptions:
            await subscription.unsubscribe()

    async def _subscribe_both(self) -> None:
        heard = await asyncio.gather(
            self._subscribe(subjects.done(*self._names), self._hear_result),
            self._subscribe(subjects.output(*self._names), self._hear_event),
            return_exceptions=True,
        )
        for error in heard:
            if error is not None:
                raise error

    async def _subscribe(self, subject: str, hear: Callable[[Message], None]) -> None:
        """Hear a subject; kept at once, since whoever waits for both may be cancelled between them."""
        self._subscriptions.append(await self._bus.subscribe(subject, hear))

    async def _hears_soon(self) -> bool:
        """Return whether anything was heard within NOTHING_S; if not, it may have been said before.

        A task that is published again under its id may run since long, and nobody says that it does.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(NOTHING_S):
                await self._heard.wait()
        return self._heard.is_set()

    def _hear_result(self, message: Message) -> None:
        try:
            stored = messages.decode(message.data, TaskResult)
        except InvalidMessage:  # from a newer system; the read will say so
            return
        self._ear.settle(stored)

    def _hear_event(self, message: Message) -> None:
        if message.headers.get(headers.EVENT) == "started":
            here: Here = {"epoch": 0, "attempt": 0, "position": ""}
            self._ear.hear_start(started_of(read_event(message.data), here))
        if not self._muted:
            self._sequencer.hear(message.headers, message.data)
            self._heard.set()
