"""Stock and refill on real servers, with two pool-managers."""

from __future__ import annotations

from typing import Any

from shared import subjects
from shared.bus import Bus
from shared.messages import Slot, decode

POOLS = [{"name": "default", "stock": 3}]


async def test_two_managers_fill_a_pool_once(start: Any, node: Any, clean_bus: Bus) -> None:
    """Each slot gets one pod, whoever starts it."""
    await start("pm-1", pools=POOLS)
    await start("pm-2", pools=POOLS)

    await node.warm(3)

    assert sorted(node.created) == ["default-0-1", "default-1-1", "default-2-1"]


async def test_a_claim_starts_one_successor(start: Any, node: Any, clean_bus: Bus) -> None:
    """The pod of a claimed slot is followed by the next generation, once."""
    await start("pm-1", pools=POOLS)
    await start("pm-2", pools=POOLS)
    worker = (await node.warm(3))[0]

    await worker.create("session-0001")
    await node.warm(3)

    slot = worker.spec.pod.split("-")[1]
    assert len(node.created) == 4
    assert node.created[-1] == f"default-{slot}-2"
    stream = subjects.slot_stream(subjects.slot_shard(slot))
    stored = await clean_bus.read_last(stream, subjects.slot("default", slot))
    assert stored is not None
    assert decode(stored.data, Slot).generation == 2
