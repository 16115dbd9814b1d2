"""What is heard of one task on NATS: its result at the moment it is stored, its output and events as they are sent."""

from __future__ import annotations

import asyncio

from agent_sandbox.events import Event, Sequencer
from agent_sandbox.orders import Order
from agent_sandbox.transport import Ear
from shared import messages, subjects
from shared.bus import Bus, Message, Subscription
from shared.errors import InvalidMessage
from shared.messages import TaskResult

READ_TIMEOUT_S = 0.5


class NatsWatch:
    """Two subscriptions, and the result's read (see `Watch`)."""

    def __init__(self, bus: Bus, order: Order, ear: Ear) -> None:
        """Hear nothing yet: `listen` does."""
        self._bus = bus
        self._names = (order.tenant, order.session, order.task)
        self._ear = ear
        self._sequencer = Sequencer()
        self._subscriptions: list[Subscription] = []

    async def listen(self) -> None:
        """Subscribe to the task's result and events.

        Raises:
            Unavailable: not connected; no subscription is left.
        """
        heard = await asyncio.gather(
            self._bus.subscribe(subjects.done(*self._names), self._hear_result),
            self._bus.subscribe(subjects.output(*self._names), self._hear_event),
            return_exceptions=True,
        )
        self._subscriptions = [one for one in heard if not isinstance(one, BaseException)]
        for one in heard:
            if isinstance(one, BaseException):
                await self.close()
                raise one

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

    def rest(self, stored: TaskResult) -> list[Event]:
        """Return the output that was not heard live, as far as the result holds it."""
        return self._sequencer.finish(stored)

    async def close(self) -> None:
        """End the subscriptions."""
        subscriptions, self._subscriptions = self._subscriptions, []
        for subscription in subscriptions:
            await subscription.unsubscribe()

    def _hear_result(self, message: Message) -> None:
        try:
            stored = messages.decode(message.data, TaskResult)
        except InvalidMessage:  # from a newer system; the read will say so
            return
        self._ear.settle(stored)

    def _hear_event(self, message: Message) -> None:
        for event in self._sequencer.take(message.headers, message.data):
            if not self._ear.hear(event):
                self._sequencer.lose(event)
