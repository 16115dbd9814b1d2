"""Percentiles and summaries of samples. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Summary(NamedTuple):
    """What a row of samples looks like."""

    samples: int
    mean: float
    p50: float
    p90: float
    p99: float
    max: float


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


def median(values: Iterable[float]) -> float:
    """Return the nearest-rank median.

    Raises:
        ValueError: no samples.
    """
    return percentile(values, 50)


def summarize(values: Sequence[float]) -> Summary:
    """Return number, mean and percentiles.

    Raises:
        ValueError: no samples.
    """
    return Summary(
        samples=len(values),
        mean=sum(values) / len(values) if values else 0.0,
        p50=percentile(values, 50),
        p90=percentile(values, 90),
        p99=percentile(values, 99),
        max=percentile(values, 100),
    )


def largest(values: Sequence[float], share: float) -> list[int]:
    """Return the positions of the largest samples, at least one: what a tail consists of.

    Args:
        values: samples.
        share: of all samples, 0 to 1.
    """
    count = max(1, math.ceil(round(share * len(values), 9)))
    return sorted(range(len(values)), key=lambda index: values[index], reverse=True)[:count]
