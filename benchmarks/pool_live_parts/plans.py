"""When which task is due: a recorded hour played faster, or ten times the usual demand at once. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from pool_manager.backtest.traces import read_arrivals, shipped

TRACE = "azure-conv"
BURST_TIMES, BURST_S = 10.0, 10.0
BATCH_SHARE = 0.25
"""Of the burst, and of the usual demand around it."""
LEARNING_S = 30.0
"""What comes before is not judged: the pool knows nothing yet."""


class Due(NamedTuple):
    """One task."""

    at_s: float
    klass: str


class Plan(NamedTuple):
    """All of them, in their order."""

    name: str
    due: Sequence[Due]
    length_s: float
    judged_from_s: float


def squeezed(seconds: float, faster: float) -> Plan:
    """Return the beginning of the recorded hour, so many times as fast; all of it where the time is long enough."""
    due = [
        Due(at / faster, "interactive")
        for at in read_arrivals(shipped(TRACE))
        if at / faster < seconds
    ]
    return Plan(
        f"{TRACE}, {faster:g} times as fast", due, due[-1].at_s, min(LEARNING_S, seconds / 4)
    )


def burst(rate_per_s: float, around_s: float, seed: int = 1) -> Plan:
    """Return random arrivals, for 10 s ten times as many; a quarter is batch."""
    draws = random.Random(f"burst {seed}")
    due: list[Due] = []
    at, end_s = 0.0, 2 * around_s + BURST_S
    while True:
        surges = around_s <= at < around_s + BURST_S
        at += draws.expovariate(rate_per_s * (BURST_TIMES if surges else 1.0))
        if at >= end_s:
            name = f"{rate_per_s:g}/s, ten times that for {BURST_S:g} s"
            return Plan(name, due, end_s, around_s)
        due.append(Due(at, "batch" if draws.random() < BATCH_SHARE else "interactive"))
