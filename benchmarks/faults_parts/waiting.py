"""Waiting for what no event tells, and going on without it after a while."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def wait_for(
    look: Callable[[], T | Awaitable[T]], *, within_s: float, every_s: float = 0.1
) -> T:
    """Return the first true value that `look` gives, a function or a coroutine function; the last one when time is up."""
    until = time.monotonic() + within_s
    while True:
        value = look()
        found = await value if isinstance(value, Awaitable) else value
        if found or time.monotonic() >= until:
            return found
        await asyncio.sleep(every_s)
