"""Publishing a task that is listened to from before its publish on."""

from __future__ import annotations

import asyncio
import time

from agent_sandbox.orders import Order
from agent_sandbox.running import RunningTask
from agent_sandbox.transport import Transport, View
from shared.errors import Unavailable

LISTEN_AGAIN_S = 0.2


async def listen_until(running: RunningTask, until: float) -> None:
    """Listen, and again where a server died meanwhile: another takes the connection over in a moment.

    Raises:
        Unavailable: no server answered until then (monotonic clock).
    """
    while True:
        try:
            return await running.watch.listen()
        except Unavailable:
            if time.monotonic() + LISTEN_AGAIN_S >= until:
                raise
        await asyncio.sleep(LISTEN_AGAIN_S)


async def start_task(
    transport: Transport, order: Order, *, deadline_s: float, called: float | None = None
) -> RunningTask:
    """Publish a task and return it as soon as it is accepted.

    Args:
        transport: the way there.
        order: what to publish.
        deadline_s: longest wait for the acceptance, seconds; tries go under the same id.
        called: when the caller's call began, by the monotonic clock; None: now.

    Raises:
        LimitExceeded: body too large, or the lane is full; it was not accepted.
        Rejected: no such pool; it was not accepted.
        Unavailable: no server answered at all; it was not published.
        OutcomeUnknown: no answer; it may have been accepted.
    """
    running = RunningTask(transport, order, called, View(live_bytes_max=order.live_bytes_max))
    until = time.monotonic() + deadline_s
    try:
        await listen_until(running, until)
        order.made.is_sent = True
        with running.span.active():
            await running.watch.publish(until)
        running.watch.accepted()
    except BaseException:
        await running.forget()
        raise
    return running
