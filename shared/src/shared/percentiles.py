"""Percentiles of samples. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable


def percentile(values: Iterable[float], rank: float) -> float:
    """Return the nearest-rank percentile: the smallest value that at least `rank` percent of all do not exceed.

    It is a value that was measured, never one between two; a p99 of fewer than 100 samples is their maximum.

    Args:
        values: samples, in any order.
        rank: above 0, at most 100.

    Raises:
        ValueError: no samples, a sample that is no number, or a rank out of range.
    """
    if not 0 < rank <= 100:
        raise ValueError(f"rank: above 0 and at most 100 expected, got {rank}")
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no samples")
    if any(math.isnan(value) for value in ordered):
        raise ValueError("a sample is no number")
    # The product is rounded before ceil: 0.07 * 100 is 7.000000000000001 in binary.
    position = math.ceil(round(rank * len(ordered) / 100, 9))
    return ordered[position - 1]
