"""A pool-manager's word to the others: that it lives, and that it leaves."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from pool_manager.core.peers import BEAT_S, ManagerBeat
from pool_manager.ports import Voice
from shared.errors import ServiceError


async def keep_beating(voice: Voice, me: str) -> None:
    """Say to the others that this one lives, until cancelled."""
    while True:
        # Not connected: the others count this one out, and right so.
        with suppress(ServiceError):
            await voice.beat(ManagerBeat(manager=me))
        await asyncio.sleep(BEAT_S)


async def say_leaving(voice: Voice, me: str) -> None:
    """Say to the others that they need not wait for this one."""
    with suppress(ServiceError):  # they will notice
        await voice.beat(ManagerBeat(manager=me, leaving=True))
