"""What a pool-manager knows, put into the metrics: results as they are stored, and how the pools are."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from typing import get_args

import msgspec

from pool_manager.core.stocks import Stock
from pool_manager.core.world import World
from pool_manager.loops.refill import Refiller
from pool_manager.ports import Heard
from shared.classes import CLASSES
from shared.durations import Part, durations_ms
from shared.messages import Interruption, Status, Timing
from shared.metrics import OTHER, Book, Metric, declared
from shared.record import ENDED, Death, Record, State

EVERY_S = 1.0
STATUSES = get_args(Status)
PARTS: dict[Part, Metric] = {
    "queue_wait": declared.QUEUE_WAIT,
    "claim": declared.CLAIM,
    "restore": declared.RESTORE,
    "start": declared.START,
    "tti": declared.TTI,
    "run": declared.RUN,
    "commit": declared.COMMIT,
}
OPEN_STATES = tuple(state for state in get_args(State) if state not in ENDED)


class _Done(msgspec.Struct):
    """The part of a result that is measured."""

    task: str
    session: str
    status: str
    pool: str = ""
    attempt: int = 0
    timing: Timing = Timing()
    interruptions: tuple[Interruption, ...] = ()


_results = msgspec.json.Decoder(_Done)


class Measurer:
    """Keeps the book of one pool-manager."""

    def __init__(
        self, book: Book, world: World, refiller: Refiller, silent_shards: Callable[[], int]
    ) -> None:
        """Look at what these know."""
        self._book = book
        self._world = world
        self._refiller = refiller
        self._silent_shards = silent_shards
        self._before: Counter[tuple[str, ...]] = Counter()
        self._looked_at = time.monotonic()

    # ------------------------------------------------------------------------------------------------- as it happens

    def result(self, message: Heard) -> None:
        """A result was stored; of all pool-managers one is told."""
        done = _results.decode(message.data)
        pool = done.pool if done.pool in self._world.pools else OTHER
        self._book.add(declared.RESULTS, pool, done.status if done.status in STATUSES else OTHER)
        if not done.timing.started_ms:
            return
        path = done.timing.path or OTHER
        if done.attempt > 1 and done.interruptions:
            self._recovered(pool, done.interruptions[-1])
        took_ms = durations_ms(done.timing, attempt=done.attempt, committed_ms=time.time() * 1000)
        for part, took in took_ms.items():
            if part == "tti" and path == "bound":
                continue
            metric = PARTS[part]
            labels = (pool, path) if "path" in metric.labels else (pool,)
            self._book.observe(metric, *labels, seconds=took / 1000)

    def _recovered(self, pool: str, loss: Interruption) -> None:
        if loss.recovered_ms is not None:
            took_ms = (loss.silent_ms or 0) + loss.recovered_ms - loss.revoked_ms
            self._book.observe(declared.RECOVERY, pool, loss.cause, seconds=took_ms / 1000)

    def revoked(self, record: Record, death: Death) -> None:
        """This pool-manager gave up an owner."""
        silent_s = (death.silent_ms or 0) / 1000
        self._book.observe(declared.DETECT, record.pool, death.cause, seconds=silent_s)

    # ----------------------------------------------------------------------------------------------------- as it is

    async def run(self) -> None:
        """Look once a second, until cancelled."""
        while True:
            self.look(time.monotonic())
            await asyncio.sleep(EVERY_S)

    def look(self, now: float) -> None:
        """Note how pools, sessions and nodes are."""
        since_s, self._looked_at = now - self._looked_at, now
        book, world = self._book, self._world
        sessions = Counter((row.record.pool, row.record.state) for row in world.table)
        for pool, slots in world.pools.items():
            warm = slots.count["warm"]
            bound = world.table.owned_count(pool)
            book.set(declared.STOCK, pool, value=slots.target)
            book.set(declared.PODS, pool, "starting", value=slots.count["starting"])
            book.set(declared.PODS, pool, "warm", value=warm)
            book.set(declared.PODS, pool, "bound", value=bound)
            book.add(declared.IDLE, pool, amount=warm * since_s)
            for klass in CLASSES:
                self._count(declared.DEMAND, slots.rung[klass], pool, klass)
                book.set(declared.WAITING, pool, klass, value=slots.waiting[klass])
            for state in OPEN_STATES:
                book.set(declared.SESSIONS, pool, state, value=sessions[pool, state])
            while slots.started_s:
                book.observe(declared.POD_START, pool, seconds=slots.started_s.popleft())
        for pool, stock in world.stocks.items():
            self._look_at(pool, stock)
        for (pool, outcome), count in self._refiller.asked.items():
            self._count(declared.POD_STARTS, count, pool, outcome)
        alive = sum(world.nodes.is_alive(node.name, now) for node in world.nodes)
        book.set(declared.NODES, "alive", value=alive)
        book.set(declared.NODES, "silent", value=sum(1 for _ in world.nodes) - alive)
        book.set(declared.SHARDS_DOWN, value=self._silent_shards())
        book.set(declared.MANAGERS, value=1 + len(world.peers.alive(now)))

    def _look_at(self, pool: str, stock: Stock) -> None:
        """Note what a pool's stock is made from."""
        book, view = self._book, stock.view()
        book.set(declared.POOL_RATE, pool, value=view.rate_per_s)
        book.set(declared.POOL_DISPERSION, pool, value=view.dispersion)
        book.set(declared.POOL_Z, pool, value=view.z)
        book.set(declared.POOL_START_MEAN, pool, value=view.start_s)
        book.set(declared.POOL_COLD, pool, value=view.reached_cold_share)
        book.set(declared.POOL_COLD_PROMISED, pool, value=view.cold_share)
        for reason, count in stock.differences.items():
            self._count(declared.POOL_DIFFER, count, pool, reason)

    def _count(self, metric: Metric, count: int, *labels: str) -> None:
        """Carry over what was counted elsewhere since its start."""
        key = (metric.name, *labels)
        before, self._before[key] = self._before[key], count
        self._book.add(metric, *labels, amount=count - before)
