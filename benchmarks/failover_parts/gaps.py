"""How long nothing happened around a fault. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise


def longest_gap_s(moments_s: Iterable[float], begin_s: float, end_s: float) -> float:
    """Return the longest time in which nothing happened between `begin_s` and `end_s`.

    A gap that began before `begin_s` counts whole; if nothing came after, it lasts until `end_s` at least.

    Args:
        moments_s: when things happened, in any order.
        begin_s: the fault.
        end_s: end of what is looked at.
    """
    ordered = sorted(moments_s)
    before = [moment for moment in ordered if moment <= begin_s]
    after = [moment for moment in ordered if moment > end_s]
    inside = [moment for moment in ordered if begin_s < moment <= end_s]
    row = [before[-1] if before else begin_s, *inside, after[0] if after else end_s]
    return max(late - early for early, late in pairwise(row))


def late_s(latencies_s: Sequence[float], usual_s: float) -> list[float]:
    """Return by how much each latency exceeds the usual one; never below 0."""
    return [max(0.0, latency - usual_s) for latency in latencies_s]
