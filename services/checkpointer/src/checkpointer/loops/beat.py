"""The checkpointer's heartbeat."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from checkpointer.ports import Voice
from shared.workspace import CheckpointerBeat


async def beat(state: Callable[[], CheckpointerBeat], voice: Voice, period_s: float) -> None:
    """Say what the checkpointer does, every `period_s` seconds, for ever."""
    loop = asyncio.get_running_loop()
    due = loop.time()
    while True:
        await voice.beat(state())
        due = max(due + period_s, loop.time())  # no burst after a pause
        await asyncio.sleep(due - loop.time())
