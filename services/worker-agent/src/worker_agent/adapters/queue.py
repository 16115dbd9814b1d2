"""The queue as an idle worker sees it: bells and single pulls."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from shared import headers, subjects
from shared.bus import Bus, Message, Subscription
from shared.bus import Delivery as BusDelivery
from shared.traces import read_context
from worker_agent.core.claims import Headers
from worker_agent.core.lanes import Lane

PULL_S = 0.15
"""How long a pull waits: a bell can overtake the consumer, so not `no_wait`."""


class QueueDelivery:
    """Implements `ports.Delivery`."""

    def __init__(self, delivery: BusDelivery, asked_ms: float) -> None:
        """Wrap a delivery of the bus that was asked for then."""
        self.asked_ms = asked_ms
        self._delivery = delivery
        self.subject = delivery.subject
        self.data = delivery.data
        self.stream_seq = delivery.stream_seq
        self.time_ms = delivery.time_ms
        self.delivered_ms = time.time() * 1000

    @property
    def headers(self) -> Headers:
        """What the publisher said beside the body."""
        return read_headers(self._delivery.headers, subjects.parse_queue(self.subject)[1])

    async def ack(self) -> None:
        """Take it off the queue."""
        await self._delivery.ack()

    async def give_back(self, delay_s: float) -> None:
        """Let another worker have it after `delay_s` seconds."""
        await self._delivery.nak(delay_s)


def read_headers(fields: Mapping[str, str], tenant: str) -> Headers:
    """Return the headers of a tenant's message that matter to a worker."""
    return Headers(
        message_id=headers.own_id(fields.get(headers.MESSAGE_ID), tenant),
        token=fields.get(headers.TOKEN),
        replay_of=fields.get(headers.REPLAY_OF),
        klass=fields.get(headers.CLASS),
        trace=read_context(fields),
    )


class PoolLanes:
    """Implements `ports.Lanes`."""

    def __init__(self, bus: Bus, pool: str) -> None:
        """Use the worker's connection for the lanes of `pool`."""
        self._bus = bus
        self._pool = pool
        self._group: Subscription | None = None
        self._leaving = False

    async def listen(self, on_bell: Callable[[Lane], None]) -> None:
        """Join the group that hears the pool's bells."""

        async def heard(message: Message) -> None:
            _, klass, shard = subjects.parse_bell(message.subject)
            if self._leaving:
                await self.ring((klass, shard))
            else:
                on_bell((klass, shard))

        self._leaving = False
        self._group = await self._bus.subscribe(
            subjects.bells(self._pool), heard, queue=subjects.IDLE_GROUP
        )

    async def leave(self) -> None:
        """Leave the group; bells already on their way to this worker are passed on."""
        self._leaving = True
        if self._group is not None:
            await self._group.drain()
            self._group = None

    async def ring(self, lane: Lane) -> None:
        """Pass a bell on to another idle worker."""
        await self._bus.publish(subjects.bell(self._pool, *lane))

    async def pull(self, lane: Lane, *, wait: bool) -> QueueDelivery | None:
        """Ask a lane for one message: for a moment, or only for one that is there already."""
        klass, shard = lane
        asked_ms = time.time() * 1000
        delivery = await self._bus.pull(
            subjects.queue_stream(shard),
            subjects.consumer(self._pool, klass),
            expires_s=PULL_S if wait else 0.0,
        )
        return None if delivery is None else QueueDelivery(delivery, asked_ms)
