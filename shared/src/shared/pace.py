"""Doing something again and again at an even pace."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NoReturn


async def steadily(act: Callable[[], Awaitable[object]], period_s: float) -> NoReturn:
    """Do something now and then every `period_s` seconds, until cancelled. What a pause has left out is not made up for."""
    loop = asyncio.get_running_loop()
    due = loop.time()
    while True:
        await act()
        due = max(due + period_s, loop.time())
        await asyncio.sleep(due - loop.time())
