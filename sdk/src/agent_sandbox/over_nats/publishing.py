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
        NotFound: no such pool (those that there are are named); it was not accepted.
        Unavailable: surely not accepted in time.
        OutcomeUnknown: no answer; it may have been accepted.
    """
    subject = subject_of(order)
    while True:
        try:
            return await bus.publish_acked(
                subject,
                order.body,
                message_id=message_id_of(order),
                headers=_headers(order),
                deadline_s=max(AGAIN_S, until - time.monotonic()),
            )
        except NotFound as exc:
            pools = None if order.pool is None else await _pools(bus, order.tenant)
            if pools is not None and order.pool not in pools:
                known = ", ".join(sorted(pools)) or "none"
                raise NotFound(f"no pool {order.pool!r}; there are: {known}") from exc
            if time.monotonic() + AGAIN_S >= until:
                raise Unavailable(f"{subject}: no stream took it in time: {exc}") from exc
            await asyncio.sleep(AGAIN_S)


def subject_of(order: Order) -> str:
    """Return where a task is published: a first one by pool and class, a later one to its session."""
    if order.pool is None:
        return subjects.session_task(order.tenant, order.session, order.task)
    return subjects.task(order.tenant, order.pool, order.klass or "interactive")


def message_id_of(order: Order) -> str:
    """Return the `Nats-Msg-Id` of a task.

    A stream keeps one message of each id for ten minutes, whoever sent it. Task ids that are only unique in their
    session would meet there, so a later task's names the session as well. (Of a first task each of three streams may
    keep one: what makes it run once is its record.)
    """
    return order.task if order.task == order.session else f"{order.session}:{order.task}"


def _headers(order: Order) -> dict[str, str] | None:
    klass = order.klass if order.pool is None else None
    fields = {headers.CLASS: klass, headers.REPLAY_OF: order.replay_of}
    return {name: value for name, value in fields.items() if value is not None} or None


async def _pools(bus: Bus, tenant: str) -> set[str] | None:
    """Return the pools that the pool-managers know; None: nobody could say."""
    subject = subjects.ask(tenant, "pools")
    try:
        answer = await bus.request(subject, messages.encode(Message()), timeout_s=ASK_S)
        found = messages.decode(answer.data, PoolsAnswer)
    except ServiceError:
        return None
    return None if found.error is not None else {view.pool for view in found.pools}
