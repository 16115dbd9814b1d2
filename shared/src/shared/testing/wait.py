"""Waiting for what no event tells."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

POLL_S = 0.01


async def until(holds: Callable[[], bool | Awaitable[bool]], *, within_s: float = 15.0) -> None:
    """Return when `holds` does; fail with TimeoutError after `within_s` seconds.

    Args:
        holds: asked again and again; may be a coroutine function.
        within_s: seconds.
    """
    async with asyncio.timeout(within_s):
        while True:
            answer = holds()
            if await answer if isinstance(answer, Awaitable) else answer:
                return
            await asyncio.sleep(POLL_S)
