"""Waiting for what no event tells, and going on without it after a while."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeVar

from agent_sandbox import Client, ClientOptions
from shared.errors import NotFound, OutcomeUnknown, Unavailable

AGAIN_S = 0.2
STORY_S = 60.0
"""Longest story."""
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


async def insist(act: Callable[[], Awaitable[T]]) -> T:
    """Do it under the same id, again while nobody can say whether it was done."""
    until = time.monotonic() + STORY_S
    while True:
        try:
            return await act()
        except (OutcomeUnknown, Unavailable, NotFound):
            if time.monotonic() > until:
                raise
        await asyncio.sleep(AGAIN_S)


@asynccontextmanager
async def connected(options: ClientOptions) -> AsyncIterator[Client]:
    """Connect a client, again while no server takes it."""
    async with AsyncExitStack() as stack:
        yield await insist(lambda: stack.enter_async_context(Client(options)))
