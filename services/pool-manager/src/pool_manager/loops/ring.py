"""Rings again for lanes that still hold messages, and starts pods for messages of pools without stock.

A bell is heard once, by whoever is idle at that moment. A message given back, redelivered after its worker's death, or
published while nobody was idle makes no sound of its own later.
"""

from __future__ import annotations

import asyncio
import time

from pool_manager.core.slots import Slots
from pool_manager.core.turns import Lane
from pool_manager.core.world import World
from pool_manager.loops.hands import wait_for
from pool_manager.ports import Queue
from shared import logs
from shared.classes import CLASSES
from shared.errors import ServiceError
from shared.ids import SHARDS

log = logs.get(__name__)

EVERY_S = 0.5
BELLS_MAX = 128
"""Bells for one lane at a time."""
IN_HAND_BELLS = 4
"""Bells for what was handed to workers and is still there."""
Dues = dict[Lane, int]
"""For how many messages of a lane to ring."""
LOOK_AHEAD = 32
"""Messages for which pods are started at one go, beside those that ring."""
SOON_S = 0.03
"""A worker that says that it is warm hears bells a moment later."""


class Ringer:
    """Polls the three queue streams, by the pool-manager whose turn it is."""

    def __init__(self, world: World, queue: Queue, refill: asyncio.Event) -> None:
        """Ask for pods through `refill`."""
        self.wanted = asyncio.Event()
        """Set when a worker became warm and messages may be waiting for it."""
        self._world = world
        self._queue = queue
        self._refill = refill
        self._before: dict[tuple[str, str, int], int] = {}

    def heard_bell(self, pool: str, klass: str, shard: int, seq: int | None) -> None:
        """A message was stored in a lane; where the pool has no stock, it gets a pod."""
        slots = self._world.pools.get(pool)
        if slots is None or seq is None:
            return
        now = time.monotonic()
        stock = self._world.stocks.get(pool)
        if stock is not None and not self._world.hearing.is_stale(now):
            stock.rang(klass)
            slots.rang(klass)
            stock.supply.fill(now)
            if slots.due:
                self._refill.set()
            return
        slots.rang(klass)
        if slots.on_demand and not self._world.hearing.is_stale(now):
            slots.demand(slot_name(shard, seq), (klass, shard), again=False, now=now)
            self._refill.set()

    async def run(self) -> None:
        """Ring twice a second, and soon after a worker came to waiting messages, until cancelled."""
        poll_at = time.monotonic()
        while True:
            soon = await wait_for(self.wanted, poll_at - time.monotonic())
            now = time.monotonic()
            polls = now >= poll_at
            if polls:
                poll_at = now + EVERY_S
            elif soon:
                await asyncio.sleep(SOON_S)
            rings = self._world.peers.is_first("ring", now)
            if polls or rings:
                await self._look(rings=rings, soon=not polls)

    async def _counts(self) -> dict[int, dict[tuple[str, str], int]]:
        """Return what waits, by shard and (pool, class); a shard that does not answer is left out."""
        counts = {}

        async def count(shard: int) -> None:
            try:
                counts[shard] = await self._queue.counts(shard)
            except ServiceError as exc:
                log.debug("ring.failed", shard=shard, code=exc.code, error=str(exc))

        # At once: one that hangs keeps the others waiting once, not each in its turn.
        await asyncio.gather(*(count(shard) for shard in range(SHARDS)))
        return dict(sorted(counts.items()))

    async def _look(self, *, rings: bool, soon: bool) -> None:
        """See what waits; every pool-manager knows it, one of them rings."""
        rung = {pool: slots.rung.total() for pool, slots in self._world.pools.items()}
        counts = await self._counts()
        for pool, slots in self._world.pools.items():
            dues: Dues = {}
            slots.waiting.clear()
            for klass in CLASSES:
                for shard, waiting in counts.items():
                    lane = (pool, klass, shard)
                    count = waiting.get((pool, klass), 0)
                    slots.waiting[klass] += count
                    if due := self._due(lane, count, soon and slots.is_starved):
                        dues[klass, shard] = due
            if not soon:
                slots.stands(sum(dues.values()))
                if (stock := self._world.stocks.get(pool)) is not None and len(counts) == SHARDS:
                    since = slots.rung.total() - rung[pool]
                    stock.looked(sum(dues.values()), slots.waiting.total(), since)
            if rings and dues:
                await self._ring(slots, dues, soon=soon)

    async def _ring(self, slots: Slots, dues: Dues, *, soon: bool) -> None:
        """Ring as often as a pool has warm workers, for its most urgent lanes first.

        A worker answers the bell that it hears: with bells for every lane that holds messages, as many would go to
        `batch` as to what is urgent. Where it is the turn of `batch`, one bell is for it.
        """
        bells = slots.count["warm"]
        lanes = [(lane, BELLS_MAX) for lane in dues]  # the most urgent first
        if slots.turns.is_batch_due:
            lanes = [(lane, 1) for lane in dues if lane[0] == "batch"][:1] + lanes
        for lane, most in lanes:
            if bells <= 0:
                break
            try:
                bells -= await self._ring_lane(slots, lane, min(dues[lane], bells, most))
            except ServiceError as exc:
                log.debug("ring.failed", shard=lane[1], code=exc.code, error=str(exc))
        if slots.on_demand and not soon:
            for lane, due in dues.items():
                try:
                    await self._start_for(slots, lane, due)
                except ServiceError as exc:
                    log.debug("ring.failed", shard=lane[1], code=exc.code, error=str(exc))

    async def _ring_lane(self, slots: Slots, lane: Lane, bells_max: int) -> int:
        """Ring for a lane at most so often; return how often.

        Most of what is still there in a burst is in workers' hands: a bell for it wakes one for nothing. Some of it may
        have been given back, or its worker may have died: a few bells find out.
        """
        pool, (klass, shard) = slots.spec.name, lane
        fresh = await self._queue.undelivered(shard, pool, klass)
        bells = min(bells_max, fresh + IN_HAND_BELLS, BELLS_MAX)
        for _ in range(bells):
            await self._queue.ring(pool, klass, shard)
        return bells

    def _due(self, lane: tuple[str, str, int], waiting: int, now: bool) -> int:
        """Return for how many messages of a lane to ring."""
        if now:
            return waiting
        # What is there for the first time is on its way to a worker that heard its bell.
        due, self._before[lane] = min(waiting, self._before.get(lane, 0)), waiting
        return due

    async def _start_for(self, slots: Slots, lane: Lane, waiting: int) -> None:
        """Ask for pods for the oldest messages of a lane, as far as none is on its way to them."""
        klass, shard = lane
        missing = waiting - slots.count["starting"] - slots.count["warm"] - len(slots.due)
        after = 0
        for _ in range(min(missing, LOOK_AHEAD)):
            message = await self._queue.next_message(shard, slots.spec.name, klass, after)
            if message is None:
                break
            after = message.seq
            name = slot_name(shard, message.seq)
            slots.demand(name, lane, again=True, now=time.monotonic())
        self._refill.set()


def slot_name(shard: int, seq: int) -> str:
    """Return the slot of a queue message in a pool without stock."""
    return f"d{shard}-{seq}"
