"""How long a pool-manager takes to decide, with many pods: for each claim, and once a second."""

from __future__ import annotations

import time
from typing import NamedTuple

import msgspec
from harness.stats import percentile

from pool_manager.core.nodes import Nodes
from pool_manager.core.peers import Peers
from pool_manager.core.plan import Clock, Facts, starts
from pool_manager.core.slots import Slots
from pool_manager.core.stocks import Stock
from shared.messages import NodeBeat, Slot
from shared.pools import PoolSpec, Promise

CLAIMS = 2000
TICKS = 200


class Times(NamedTuple):
    """Microseconds, at the 99th percentile."""

    claim_us: float
    """A bell and a claim taken in, and the successor's start planned."""
    tick_us: float
    """The second's look at demand, with what is written of it."""
    state_bytes: int
    """Of the record that is written."""


def decision_us(pods: int) -> Times:
    """Time the decisions of a pool-manager that has so many warm pods."""
    promise = Promise(cold_share=0.01)
    spec = PoolSpec(name="p", stock=0, pods_max=10_000, starting_max=1000, promise=promise)
    slots, now = Slots(spec), 1000.0
    stock = Stock(slots, promise, now)
    peers, nodes = Peers("pm"), Nodes()
    beat = NodeBeat(node="n", started_ms=1, capacity=2 * pods, isolation={"namespace": ""})
    nodes.heard(beat, now)
    stock.nothing_stored()
    for number in range(pods):
        _warm(slots, str(number), number, now)
    slots.target = pods
    claims = []
    for number in range(min(CLAIMS, pods)):
        now += 0.001
        nodes.heard(beat, now)
        facts = Facts(peers, nodes, bound=0)
        began = time.perf_counter_ns()
        stock.rang("interactive")
        slots.rang("interactive")
        slots.taken(f"p-{number}-1", now)
        planned = starts(slots, facts, Clock(now, int(now * 1000)))
        claims.append((time.perf_counter_ns() - began) / 1000)
        for start in planned:
            slots.apply(start.slot, pods + number + 1, fate="warm", now=now)
    ticks, size = [], 0
    for _ in range(TICKS):
        now += 1.0
        slots.learned_s.extend([45.0] * 10)
        began = time.perf_counter_ns()
        record = stock.tick(peers, bound=0, minute_of_week=0, now=now)
        size = len(msgspec.json.encode(record))
        ticks.append((time.perf_counter_ns() - began) / 1000)
    return Times(percentile(claims, 99), percentile(ticks, 99), size)


def _warm(slots: Slots, name: str, seq: int, now: float) -> None:
    slot = Slot(
        pool="p", slot=name, generation=1, pod=f"p-{name}-1", node="n", manager="pm", reserved_ms=1
    )
    slots.apply(slot, seq + 1, fate="warm", now=now)
