"""What the buffers of a node's jobs take of its memory."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checkpointer.adapters.engine import threads
from checkpointer.adapters.engine.threads import Transfers
from checkpointer.testing.fault_store import FaultStore
from shared.errors import Draining

MIB = 1024 * 1024
ALL_BYTES = 3 * MIB


class Scale(FaultStore):
    """Weighs what is under way, and lets each call take its time."""

    under_way = most = 0
    pack_bytes = MIB

    async def put(self, key: str, data: bytes) -> None:
        """See `BlobStore`."""
        await self._weigh(len(data), super().put(key, data))

    async def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        """See `BlobStore`."""
        got: bytes = await self._weigh(length or 0, super().get(key, start, length))
        return got

    async def _weigh(self, size: int, call: Any) -> Any:
        self.under_way += size
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0.002)
        try:
            return await call
        finally:
            self.under_way -= size


async def test_all_jobs_of_a_node_together_have_so_many_bytes_under_way(
    rig: Any, describe: Callable[[Path], Any]
) -> None:
    """However many they are, and whichever way; none waits for ever for another one."""
    rig.faults = scale = Scale(rig.local)
    rig.store._store = scale
    rig.transfers = Transfers(ALL_BYTES)
    places = [rig.new_place() for _ in range(4)]
    for number, place in enumerate(places):
        (place / "large").write_bytes(random.Random(number).randbytes(9 * MIB))
        for each in range(40):
            (place / f"small{each}").write_bytes(random.Random(each).randbytes(8_000))
    async with asyncio.timeout(60):
        saved = await asyncio.gather(*(rig.save(place) for place in places))
        assert MIB < scale.most <= ALL_BYTES + MIB  # what a body or a footer takes does not count
        scale.most = 0
        targets = [rig.new_place() for _ in places]
        jobs = [rig.restore(one.ref, target) for one, target in zip(saved, targets, strict=True)]
        again = [
            rig.save(place, one.ref, cached=False) for one, place in zip(saved, places, strict=True)
        ]
        await asyncio.gather(*jobs, *again)
    assert MIB < scale.most <= ALL_BYTES + MIB
    assert [describe(one) for one in targets] == [describe(one) for one in places]
    assert rig.transfers.try_take(ALL_BYTES)  # all was given back


def test_who_waits_for_room_is_served_in_turn_and_may_give_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is larger than the room goes alone, and nobody overtakes it."""
    monkeypatch.setattr(threads, "TURN_S", 0.01)
    room = Transfers(10)
    assert room.try_take(6)
    taken = threading.Event()

    def take_all() -> None:
        room.take(100, lambda: None)
        taken.set()

    waiter = threading.Thread(target=take_all)
    waiter.start()
    while not room._waiting:
        taken.wait(0.001)
    assert not room.try_take(1)
    room.give_back(6)
    waiter.join(10)
    assert taken.is_set()
    assert not room.try_take(1)

    def stop() -> None:
        raise Draining("the job was broken off")

    with pytest.raises(Draining):
        room.take(1, stop)
    room.give_back(100)
    assert room.try_take(10)
