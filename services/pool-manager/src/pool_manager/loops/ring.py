"""Rings again for lanes that still hold messages, and starts pods for messages of pools without stock.

A bell is heard once, by whoever is idle at that moment. A message given back, redelivered after its worker's death, or
published while nobody was idle makes no sound of its own later.
"""

from __future__ import annotations

import asyncio
import time

from pool_manager.core.slots import Slots
from pool_manager.core.world import World
from pool_manager.ports import Queue
from shared import logs
from shared.errors import ServiceError
from shared.ids import SHARDS
from shared.subjects import CLASSES

log = logs.get(__name__)

EVERY_S = 0.5
BELLS_MAX = 32
"""Bells for one lane at a time: workers that become free look into the lanes by themselves."""
LOOK_AHEAD = 32
"""Messages for which pods are started at one go, beside those that ring."""


class Ringer:
    """Polls the three queue streams, each by the pool-manager whose turn it is."""

    def __init__(self, world: World, queue: Queue, refill: asyncio.Event) -> None:
        """Ask for pods through `refill`."""
        self._world = world
        self._queue = queue
        self._refill = refill
        self._before: dict[tuple[str, str, int], int] = {}

    def heard_bell(self, pool: str, klass: str, shard: int, seq: int | None) -> None:
        """A message was stored in a lane: where the pool has no stock, it gets a pod."""
        slots = self._world.pools.get(pool)
        if slots is None or not slots.on_demand or seq is None:
            return
        slots.demand(slot_name(shard, seq), (klass, shard), again=False, now=time.monotonic())
        self._refill.set()

    async def run(self) -> None:
        """Ring twice a second, until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            for shard in range(SHARDS):
                if not self._world.peers.is_first(f"ring/{shard}", time.monotonic()):
                    continue
                try:
                    await self._ring_shard(shard)
                except ServiceError as exc:
                    log.debug("ring.failed", shard=shard, code=exc.code, error=str(exc))

    async def _ring_shard(self, shard: int) -> None:
        counts = await self._queue.counts(shard)
        for pool, slots in self._world.pools.items():
            for klass in CLASSES:
                lane = (pool, klass, shard)
                count = counts.get((pool, klass), 0)
                # What is there for the first time is on its way to a worker that heard its bell.
                waiting = min(count, self._before.get(lane, 0))
                self._before[lane] = count
                if not waiting:
                    continue
                for _ in range(min(waiting, BELLS_MAX)):
                    await self._queue.ring(pool, klass, shard)
                if slots.on_demand:
                    await self._start_for(slots, klass, shard, waiting)

    async def _start_for(self, slots: Slots, klass: str, shard: int, waiting: int) -> None:
        """Ask for pods for the oldest messages of a lane, as far as none is on its way to them."""
        missing = waiting - slots.count["starting"] - slots.count["warm"] - len(slots.due)
        after = 0
        for _ in range(min(missing, LOOK_AHEAD)):
            message = await self._queue.next_message(shard, slots.spec.name, klass, after)
            if message is None:
                break
            after = message.seq
            name = slot_name(shard, message.seq)
            slots.demand(name, (klass, shard), again=True, now=time.monotonic())
        self._refill.set()


def slot_name(shard: int, seq: int) -> str:
    """Return the slot of a queue message in a pool without stock."""
    return f"d{shard}-{seq}"
