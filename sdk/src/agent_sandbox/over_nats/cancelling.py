"""Asking for a task's end, and asking again while nobody can say what became of it."""

from __future__ import annotations

import asyncio
import time

from agent_sandbox.orders import Order
from shared import messages, subjects
from shared.bus import Bus
from shared.errors import OutcomeUnknown, ServiceError, Unavailable
from shared.messages import CancelAnswer, CancelAsk

CANCEL_TRY_S = 3.0
CANCEL_PAUSE_S = 0.2


async def cancel_task(bus: Bus, order: Order, *, wait_s: float) -> CancelAnswer:
    """Ask the pool-managers to cancel a task, again while they can't say.

    Raises:
        OutcomeUnknown: no definite answer within `wait_s`.
    """
    subject = subjects.cancel(order.tenant, order.session, order.task)
    body = messages.encode(CancelAsk(pool=order.pool))
    until = time.monotonic() + wait_s
    said = "nobody answered"
    while time.monotonic() < until:
        try:
            answer = messages.decode(
                (await bus.request(subject, body, timeout_s=CANCEL_TRY_S)).data, CancelAnswer
            )
        except ServiceError as exc:
            if exc.definite and not isinstance(exc, Unavailable) and exc.code != "not_found":
                raise
            said = str(exc)
        else:
            if answer.outcome != "try_again":
                return answer
            said = answer.error.message if answer.error else "try again"
        await asyncio.sleep(CANCEL_PAUSE_S)
    raise OutcomeUnknown(f"cancel of task {order.task}: no answer within {wait_s:g} s ({said})")
