"""A fixed number of hands that do what loops decide, so that a burst neither waits in line nor floods the servers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from shared import logs
from shared.errors import ServiceError

log = logs.get(__name__)

Work = Callable[[], Awaitable[object]]


class Hands:
    """Does each offered piece of work once; a second offer under the same key waits for nothing and is refused.

    The loops are level-triggered: what was refused or failed here is seen again and offered again.
    """

    def __init__(self, name: str, *, count: int, pending_max: int) -> None:
        """Make idle hands; `run` moves them."""
        self.name = name
        self.busy: set[str] = set()
        self._count = count
        self._queue: asyncio.Queue[tuple[str, Work]] = asyncio.Queue(pending_max)
        self._logged_at = 0.0

    def offer(self, key: str, work: Work) -> bool:
        """Take a piece of work; False if its key is in hand already, or too much waits."""
        if key in self.busy:
            return False
        try:
            self._queue.put_nowait((key, work))
        except asyncio.QueueFull:
            if time.monotonic() - self._logged_at > 5.0:
                self._logged_at = time.monotonic()
                log.warning("hands.full", hands=self.name, waiting=self._queue.qsize())
            return False
        self.busy.add(key)
        return True

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._count):
                group.create_task(self._work())

    async def finish(self, deadline_s: float) -> None:
        """Wait until all that was taken is done, at most `deadline_s` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(deadline_s):
                await self._queue.join()

    async def _work(self) -> None:
        while True:
            key, work = await self._queue.get()
            try:
                await work()
            except ServiceError as exc:
                log.warning("work.failed", hands=self.name, what=key, code=exc.code, error=str(exc))
            finally:
                self.busy.discard(key)
                self._queue.task_done()


async def wait_for(event: asyncio.Event, timeout_s: float) -> bool:
    """Wait for an event, at most `timeout_s` seconds; clear it and return whether it was set."""
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await event.wait()
    was_set = event.is_set()
    event.clear()
    return was_set
