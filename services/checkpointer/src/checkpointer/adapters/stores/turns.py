"""Who may send now: a few packs at once, a large one alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager


class Turns:
    """Bounds what is unsent on one connection."""

    def __init__(self, at_once: int, large_bytes: int) -> None:
        """Let `at_once` packs be sent at once; one of more than `large_bytes` alone."""
        self._at_once = at_once
        self._large_bytes = large_bytes
        self._turns = asyncio.Semaphore(at_once)
        self._large = asyncio.Lock()

    @asynccontextmanager
    async def take(self, size_bytes: int) -> AsyncIterator[None]:
        """Wait for a turn to send so much, and have it while inside."""
        if size_bytes <= self._large_bytes:
            async with self._turns:
                yield
            return
        async with self._large, AsyncExitStack() as held:
            for _ in range(self._at_once):
                await held.enter_async_context(self._turns)
            yield
