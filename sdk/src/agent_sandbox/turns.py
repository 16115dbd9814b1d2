"""Bounds how many publishes of one client are under way at once."""

from __future__ import annotations

import asyncio
import time

from agent_sandbox.orders import Order
from agent_sandbox.running import RunningTask
from agent_sandbox.starting import start_task
from agent_sandbox.transport import Transport
from shared import limits
from shared.errors import Unavailable


class PublishTurns:
    """Lets so many publishes go at once; the others wait for their turn, in order."""

    def __init__(self, most: int = limits.PUBLISHES_MAX) -> None:
        """Allow `most` at once."""
        self._most = most
        self._free = asyncio.Semaphore(most)

    async def start(self, transport: Transport, order: Order, *, deadline_s: float) -> RunningTask:
        """Publish a task when it is its turn, and return it as soon as it is accepted.

        Args:
            transport: the way there.
            order: what to publish.
            deadline_s: longest wait for turn and acceptance, seconds.

        Raises:
            Unavailable: no turn within that time; it was not published.
            ServiceError: others as `start_task`.
        """
        called = time.monotonic()
        until = called + deadline_s
        try:
            async with asyncio.timeout(deadline_s):
                await self._free.acquire()
        except TimeoutError as exc:
            raise Unavailable(
                f"task {order.task} was not published: {self._most} publishes of this client are under way "
                f"(PUBLISHES_MAX), and none ended within {deadline_s:g} s"
            ) from exc
        try:
            left_s = until - time.monotonic()
            return await start_task(transport, order, deadline_s=left_s, called=called)
        finally:
            self._free.release()
