"""Percentiles and summaries of samples. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from shared.percentiles import percentile

__all__ = ["Summary", "largest", "median", "percentile", "summarize"]


class Summary(NamedTuple):
    """What a row of samples looks like."""

    samples: int
    mean: float
    p50: float
    p90: float
    p99: float
    max: float


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
