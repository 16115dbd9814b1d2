"""Decides the stock of pools with a promise, once a second, and keeps what it is decided by where it outlives this process."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime

from pool_manager.core.stocks import UNREADABLE_S, Stock, StockRecord
from pool_manager.core.world import World
from pool_manager.ports import StockStore
from shared import logs
from shared.errors import Conflict, InvalidMessage, OutcomeUnknown, ServiceError, Unavailable

log = logs.get(__name__)

EVERY_S = 1.0
DAY_MINUTES = 24 * 60
UNREADABLE = f"what was decided can't be read, by this version at least: left alone for {UNREADABLE_S:g} s, then decided anew"
PASSING = (Conflict, OutcomeUnknown, Unavailable)
"""Errors that the next tick is expected to be without."""


class Stocker:
    """Lets the policies see what there is."""

    def __init__(self, world: World, store: StockStore, refill: asyncio.Event) -> None:
        """Ask for pods through `refill`."""
        self._world = world
        self._store = store
        self._refill = refill
        self._told: dict[str, str] = {}
        """Pool -> what was warned of and still holds."""

    async def run(self) -> None:
        """Tick until cancelled; there may be nothing to do."""
        while self._world.stocks:
            await asyncio.sleep(EVERY_S)
            await asyncio.gather(
                *(self._tick(pool, stock) for pool, stock in self._world.stocks.items())
            )

    async def _tick(self, pool: str, stock: Stock) -> None:
        if stock.seq is None:
            await self._read(pool, stock)
        now = time.monotonic()
        if not self._world.hearing.connected:
            return
        record = stock.tick(
            self._world.peers,
            bound=self._world.table.owned_count(pool),
            minute_of_week=minute_of_week(time.time()),
            now=now,
        )
        if stock.slots.due:
            self._refill.set()
        if record is not None:
            await self._write(stock, record)

    async def _write(self, stock: Stock, record: StockRecord) -> None:
        """Write what was decided; whoever wrote meanwhile decides."""
        try:
            seq = await self._store.write(record, stock.seq or 0)
        except (
            ServiceError
        ) as exc:  # a full store as well: what is held stays, the next tick tries anew
            log.debug("stock.not_written", pool=record.pool, error=str(exc))
            self._tell(record.pool, exc)
            await self._read(record.pool, stock)
            return
        self._told.pop(record.pool, None)
        stock.wrote(record, seq, time.monotonic())
        log.debug("stock.decided", pool=record.pool, position=record.position)

    async def _read(self, pool: str, stock: Stock) -> None:
        try:
            found = await self._store.read(pool)
        except ServiceError as exc:
            log.debug("stock.not_read", pool=pool, error=str(exc))
            self._tell(pool, exc)
            return
        if found is None:
            stock.nothing_stored()
            return
        record, seq = found
        if record is not None:
            self._world.on_stock(record, seq, time.monotonic())
            return
        stock.unreadable(seq, time.monotonic())
        if stock.seq is None:
            self._tell(pool, InvalidMessage(UNREADABLE))
        else:
            log.warning("stock.begins_anew", pool=pool, seq=seq)

    def _tell(self, pool: str, exc: ServiceError) -> None:
        """Warn, once, of what keeps a pool's stock from being decided, or its record from being kept."""
        if isinstance(exc, PASSING) or self._told.get(pool) == str(exc):
            return
        self._told[pool] = str(exc)
        log.warning("stock.record_refused", pool=pool, error=str(exc))


def minute_of_week(wall_s: float) -> int:
    """Return the minute of the week, UTC, from Monday 00:00."""
    at = datetime.fromtimestamp(wall_s, UTC)
    return at.weekday() * DAY_MINUTES + at.hour * 60 + at.minute
