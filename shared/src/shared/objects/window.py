"""How much of an object is on the way at once."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable

WINDOW_CHUNKS_MAX = 8
"""Chunks on the way at once: 2 MiB, more than which no end ever holds of an object."""
SLOW_S = 0.5
"""A chunk that takes longer halves the window: on a slow line, other messages must not wait behind chunks for ever."""
ANSWER_S = 4.0
"""Longest wait for one answer; a shard elects its leader in as many seconds, and each try sends the chunk again."""
STALL_S = 60.0
"""Longest wait for one chunk, all tries together."""


class Window:
    """How many chunks may be on the way: fewer while they are slow."""

    def __init__(self) -> None:
        """Start small."""
        self.size = 2
        self._taken = 0
        self._left = asyncio.Event()

    @property
    def has_room(self) -> bool:
        """Whether one more may go now."""
        return self._taken < self.size

    async def wait_room(self) -> None:
        """Wait until one more may go."""
        while not self.has_room:
            self._left.clear()
            await self._left.wait()

    async def _run(self, carry: Callable[[], Awaitable[bytes]]) -> bytes:
        """Carry one chunk; its time decides how many go at once."""
        began = time.monotonic()
        try:
            return await carry()
        finally:
            if time.monotonic() - began > SLOW_S:
                self.size = max(1, self.size // 2)
            else:
                self.size = min(WINDOW_CHUNKS_MAX, self.size + 1)

    def _leave(self, _task: asyncio.Task[bytes]) -> None:
        self._taken -= 1
        self._left.set()

    def start(self, carry: Callable[[], Awaitable[bytes]]) -> asyncio.Task[bytes]:
        """Begin with a chunk; it leaves the window also where its task is cancelled before it ran at all."""
        self._taken += 1
        task = asyncio.create_task(self._run(carry), name="object-chunk")
        task.add_done_callback(self._leave)
        return task


async def end(tasks: deque[asyncio.Task[bytes]]) -> None:
    """Cancel what is on the way and wait until it is gone."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    tasks.clear()
