"""Pools with a promise on real servers: what rings is ordered, who decides writes it down, a successor goes on from there."""

from __future__ import annotations

from typing import Any

import pytest

from pool_manager.core import stocks
from pool_manager.core.stocks import StockRecord
from shared import subjects
from shared.messages import decode
from shared.testing.look import Look, until
from shared.testing.names import unique

POOLS = [{"name": "default", "stock": 1, "pods_max": 20, "promise.cold_share": 0.05}]


async def ring(look: Look, count: int) -> None:
    """Publish one-shots that nobody takes."""
    for _ in range(count):
        subject = subjects.queue(1, "acme", "default", "interactive")
        await look.bus.publish_acked(subject, b'{"kind": "open"}', message_id=unique("session"))


async def decided(look: Look, by: str = "") -> StockRecord | None:
    """Return what was decided last, if by that manager."""
    stream = subjects.slot_stream(subjects.slot_shard(subjects.STOCK))
    stored = await look.bus.read_last(stream, subjects.slot("default", subjects.STOCK))
    if stored is None:
        return None
    record = decode(stored.data, StockRecord)
    return record if by in ("", record.manager) else None


async def test_each_message_that_waits_gets_a_pod_beside_the_stock(
    start: Any, node: Any, look: Look
) -> None:
    """One is warm; four ring and nobody claims them: four more are started, once each, by either manager."""
    await start("pm-1", pools=POOLS)
    await start("pm-2", pools=POOLS)
    await node.warm(1)

    await ring(look, 4)

    await until(lambda: len(node.created) >= 5)
    assert len(set(node.created)) == len(node.created)
    record = await until(lambda: decided(look))
    assert record.position >= 1


async def test_what_was_decided_outlives_who_decided(start: Any, node: Any, look: Look) -> None:
    """The decider leaves: the other goes on from its record, with what it had seen of demand."""
    stops = {name: await start(name, pools=POOLS) for name in ("pm-1", "pm-2")}
    await node.warm(1)
    await ring(look, 3)
    await until(lambda: len(node.created) >= 4)

    async def has_learned() -> StockRecord | None:
        record = await decided(look)
        return record if record is not None and "interactive" in record.state.classes else None

    before = await until(has_learned)
    other = "pm-2" if before.manager == "pm-1" else "pm-1"

    stops[before.manager].set("its turn is over")

    after = await until(lambda: decided(look, other))
    assert after.state.second > before.state.second
    seen, was = after.state.classes["interactive"], before.state.classes["interactive"]
    assert seen.seconds >= was.seconds
    assert seen.slow_per_s > 0


async def test_a_record_that_nobody_can_read_is_decided_anew(
    start: Any, node: Any, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stands in its place is no record of this version: after a while it is written over, on its sequence."""
    monkeypatch.setattr(stocks, "UNREADABLE_S", 0.5)
    subject = subjects.slot("default", subjects.STOCK)
    stream = subjects.slot_stream(subjects.slot_shard(subjects.STOCK))
    before = await look.bus.read_last(stream, subject)
    rubbish = await look.bus.compare_and_set(
        subject, b'{"pool": 7}', expected_seq=before.seq if before else 0
    )

    await start("pm-1", pools=POOLS)
    await node.warm(1)

    async def written_over() -> StockRecord | None:
        stored = await look.bus.read_last(stream, subject)
        return None if stored is None or stored.seq == rubbish else decode(stored.data, StockRecord)

    record = await until(written_over)
    assert record.manager == "pm-1"
    assert record.position >= 1
