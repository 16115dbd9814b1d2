"""The stock of a pool with a promise, where its record can't be written or read."""

from __future__ import annotations

import asyncio

import pytest
import structlog

from pool_manager.core.stocks import StockRecord
from pool_manager.core.world import Bounds, World
from pool_manager.loops import stock
from pool_manager.loops.stock import Stocker
from shared.errors import LimitExceeded
from shared.pools import PoolSpec, Promise

OFTEN = 3


class Refusing:
    """A store that is full, or holds what no manager of this version can read."""

    def __init__(self, *, readable: bool) -> None:
        """Refuse to be written; what it holds can't be read either, unless readable."""
        self.tried: list[str] = []
        self.tried_often = asyncio.Event()
        self._readable = readable

    async def write(self, record: StockRecord, expected_seq: int) -> int:
        """Refuse, as a stream at its limit does."""
        self._try("write")
        raise LimitExceeded(f"{record.pool} after {expected_seq}: the store is full")

    async def read(self, pool: str) -> tuple[StockRecord | None, int] | None:
        """Say that there is no record, or that there is one for which nobody has eyes."""
        if self._readable:
            return None
        self._try("read")
        return None, 7

    def _try(self, what: str) -> None:
        self.tried.append(what)
        if len(self.tried) == OFTEN:
            self.tried_often.set()


@pytest.mark.parametrize(("readable", "said"), [(True, "is full"), (False, "can't be read")])
async def test_a_store_that_refuses_the_record_is_tried_again_and_told_of_once(
    monkeypatch: pytest.MonkeyPatch, *, readable: bool, said: str
) -> None:
    """Neither ends the manager, which has other pools to hold; people read why nothing is decided, not each second."""
    monkeypatch.setattr(stock, "EVERY_S", 0.01)
    world = World("pm-1", [PoolSpec(name="p", promise=Promise(cold_share=0.05))], Bounds(), 0.0)
    world.peers.restart(float("-inf"))
    store = Refusing(readable=readable)
    with structlog.testing.capture_logs() as lines:
        running = asyncio.create_task(Stocker(world, store, asyncio.Event()).run())
        often = asyncio.create_task(store.tried_often.wait())
        try:
            async with asyncio.timeout(20):
                await asyncio.wait({running, often}, return_when=asyncio.FIRST_COMPLETED)
            assert not running.done()
        finally:
            running.cancel()
            often.cancel()
            await asyncio.gather(running, often, return_exceptions=True)

    warned = [line["error"] for line in lines if line["log_level"] == "warning"]
    assert len(store.tried) >= OFTEN
    assert len(warned) == 1
    assert said in warned[0]
