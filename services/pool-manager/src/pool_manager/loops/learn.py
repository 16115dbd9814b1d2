"""Reads what the streams hold: everything at the start, and what was written since once a minute."""

from __future__ import annotations

import asyncio
import time

from pool_manager.core.world import World
from pool_manager.loops.hands import wait_for
from pool_manager.ports import SlotStore, Truth
from shared import logs
from shared.errors import ServiceError
from shared.ids import SHARDS

log = logs.get(__name__)

EVERY_S = 60.0
AGAIN_S = 2.0
"""A scan that failed is tried again after so long."""
BREATH = 256
"""Records after which others get their turn."""


class Learner:
    """Keeps the world complete where an event was missed."""

    def __init__(self, world: World, truth: Truth, slots: SlotStore) -> None:
        """Read into `world`."""
        self.wanted = asyncio.Event()
        """Set after a reconnect: events were missed."""
        self._world = world
        self._truth = truth
        self._slots = slots
        self._seen = [0] * SHARDS

    async def read_all(self) -> None:
        """Read slots and records once.

        Raises:
            ServiceError: a stream could not be read.
        """
        await self._read_slots()
        for shard in range(SHARDS):
            await self._read_records(shard)

    async def run(self) -> None:
        """Read once a minute and after each reconnect, until cancelled."""
        failed = False
        while True:
            await wait_for(self.wanted, AGAIN_S if failed else EVERY_S)
            try:
                await self.read_all()
                failed = False
            except ServiceError as exc:
                log.warning("scan.failed", code=exc.code, error=str(exc))
                failed = True

    async def _read_slots(self) -> None:
        found: set[tuple[str, str]] = set()
        began = time.monotonic()
        async for slot, seq in self._slots.scan():
            found.add((slot.pool, slot.slot))
            self._world.on_slot(slot, seq, time.monotonic())
        for pool, slots in self._world.pools.items():
            for name, row in list(slots.rows.items()):
                if (pool, name) not in found and row.since < began - AGAIN_S:
                    slots.forget(name)

    async def _read_records(self, shard: int) -> None:
        count = 0
        async for known in self._truth.scan(shard, self._seen[shard]):
            self._world.on_record(
                known.record, known.seq, now=time.monotonic(), stored_ms=known.stored_ms
            )
            self._seen[shard] = known.seq
            count += 1
            if count % BREATH == 0:
                await asyncio.sleep(0)
