"""Publishing a task until it is surely accepted or surely refused."""

from __future__ import annotations

import asyncio
import time

from agent_sandbox.orders import Order
from shared import headers, messages, subjects
from shared.bus import Bus, PubAck
from shared.errors import NotFound, ServiceError, Unavailable
from shared.messages import Message
from shared.views import PoolsAnswer

AGAIN_S = 0.2
ASK_S = 1.0


async def publish_order(bus: Bus, order: Order, until: float) -> PubAck:
    """Publish a task, every try under its id, until `until` (monotonic clock); return the stream's word.

    A stream that elects its leader looks like none at all, and while all servers start again that holds for every
    shard. So that nobody listens is believed of a pool only when the pool-managers do not know it.

    Raises:
        LimitExceeded: body too large, or the lane is full; it was not accepted.
        NotFound: no such pool; it was not accepted.
        Unavailable: surely not accepted in time.
        OutcomeUnknown: no answer; it may have been accepted.
    """
    while True:
        try:
            return await bus.publish_acked(
                order.subject,
                order.body,
                message_id=order.task,
                headers=None if order.klass is None else {headers.CLASS: order.klass},
                deadline_s=max(AGAIN_S, until - time.monotonic()),
            )
        except NotFound as exc:
            if order.pool is not None and not await _may_exist(bus, order.tenant, order.pool):
                raise
            if time.monotonic() + AGAIN_S >= until:
                raise Unavailable(f"{order.subject}: no stream took it in time: {exc}") from exc
            await asyncio.sleep(AGAIN_S)


async def _may_exist(bus: Bus, tenant: str, pool: str) -> bool:
    """Return whether the pool-managers know a pool, or can not say."""
    subject = subjects.ask(tenant, "pools")
    try:
        answer = await bus.request(subject, messages.encode(Message()), timeout_s=ASK_S)
        found = messages.decode(answer.data, PoolsAnswer)
    except ServiceError:
        return True
    return found.error is not None or any(view.pool == pool for view in found.pools)
