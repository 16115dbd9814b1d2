"""Moves leaders back to where they belong, so that the next server's death stops one shard, not two."""

from __future__ import annotations

import asyncio
import random
import time

from pool_manager.core import balance
from pool_manager.core.world import World
from pool_manager.ports import Leaders
from shared import logs
from shared.errors import ServiceError

log = logs.get(__name__)

EVERY_S = 30.0
LOOKS = 3
"""A seat that lagged for a moment is looked at again so often in one round."""
LOOK_AGAIN_S = 1.0
MOVES_MAX = 16
"""In one round."""
BETWEEN_S = 0.1
"""Each move stops what it moves for some hundredths of a second: one after the other."""


class Balancer:
    """One of all pool-managers does it, by turn."""

    def __init__(self, world: World, leaders: Leaders) -> None:
        """Move over `leaders`; `world` tells whose turn it is."""
        self._world = world
        self._leaders = leaders

    async def run(self) -> None:
        """Look every half minute, until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S * random.uniform(0.9, 1.1))
            now = time.monotonic()
            peers = self._world.peers
            if not self._world.hearing.connected or not peers.is_settled(now):
                continue
            if peers.is_first("leaders", now):
                try:
                    await self.balance()
                except ServiceError as exc:
                    log.debug("leaders.not_moved", code=exc.code, error=str(exc))

    async def balance(self) -> None:
        """Move what is in the wrong place, if the cluster is whole.

        Raises:
            ServiceError: a server did not answer.
        """
        left = MOVES_MAX
        for look in range(LOOKS):
            if look:
                await asyncio.sleep(LOOK_AGAIN_S)
            moves = balance.plan(await self._leaders.look(), left)
            left -= len(moves)
            for move in moves:
                await self._leaders.move(move)
                log.info("leader.moved", what=move.path, to=move.to)
                await asyncio.sleep(BETWEEN_S)
