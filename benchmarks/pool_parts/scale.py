"""A pool-manager of 10,000 warm pods at 1,000 claims each second: how much of its time they take, and its memory."""

from __future__ import annotations

import gc
import tracemalloc
from typing import NamedTuple

from harness.stats import percentile

from pool_manager.backtest.fleet import Fleet
from shared.pools import PoolSpec, Promise

RATE_PER_S = 1000.0
LEAD_S = 3.0
WARM_S, SECONDS = 8.0, 12.0
DIES_S = 12.0
MIB = 1 << 20


class Scale(NamedTuple):
    """What was found."""

    bell_us: float
    """Of one bell, p99 microseconds."""
    claim_us: float
    """Of one claim's record, p99 microseconds."""
    busy_share: float
    """Of a manager's time, for bells and claims at 1,000 each second."""
    over: float
    """Pods above the decided position at most, of that, while the decider dies in mid-burst."""
    cold_share: float
    memory_mib: float
    """Of one manager's view: slots, records, nodes, policy."""


def at_scale(pods: int) -> Scale:
    """Run two managers of so many warm pods under 1,000 claims each second; the one that decides dies half-way.

    Raises:
        AssertionError: nobody decides.
    """
    made = _fleet(pods, managers=2)
    made.load(RATE_PER_S, WARM_S, WARM_S + SECONDS)
    made.run(DIES_S)
    dead = made.decider()
    assert dead is not None, "nobody decides"
    dead.lives = False
    made.run(WARM_S + SECONDS + LEAD_S)
    told = made.told
    bell_us = sum(told.bell_us) / len(told.bell_us)
    claim_us = sum(told.claim_us) / len(told.claim_us)
    return Scale(
        bell_us=percentile(told.bell_us, 99),
        claim_us=percentile(told.claim_us, 99),
        busy_share=(bell_us + claim_us) * RATE_PER_S / 1e6,
        over=told.over,
        cold_share=told.waited / told.claims,
        memory_mib=_memory_mib(pods),
    )


def _fleet(pods: int, managers: int) -> Fleet:
    spec = PoolSpec(
        name="p",
        stock=pods,
        pods_max=1_000_000,
        starting_max=1_000_000,
        promise=Promise(cold_share=0.01, stock_min=pods),
    )
    return Fleet(spec, managers, lead_s=LEAD_S)


def _memory_mib(pods: int) -> float:
    """Return what the view of one manager takes once all pods are warm: what two of them need more than one."""
    taken = []
    for managers in (1, 2):
        gc.collect()
        tracemalloc.start()
        made = _fleet(pods, managers)
        made.run(WARM_S)
        gc.collect()
        taken.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
        del made
    return (taken[1] - taken[0]) / MIB
