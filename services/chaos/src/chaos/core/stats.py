"""Percentiles, and the like."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import msgspec

from shared.percentiles import percentile


class Spread(msgspec.Struct, frozen=True):
    """How values are spread; all None: there are none."""

    count: int = 0
    p50: float | None = None
    p95: float | None = None
    max: float | None = None
    mean: float | None = None


def spread(values: Iterable[float | None]) -> Spread:
    """Return the spread of the values that are known."""
    known = [value for value in values if value is not None]
    if not known:
        return Spread()
    return Spread(
        len(known),
        percentile(known, 50),
        percentile(known, 95),
        max(known),
        sum(known) / len(known),
    )


def longest(points: Iterable[tuple[float, float]]) -> float:
    """Return the largest value of a line; 1 where it has none, so that there is something to draw an axis by."""
    return max((value for _, value in points), default=1.0)


def longest_gap(times: Sequence[float], begin_s: float, end_s: float) -> float:
    """Return the longest time between two neighbours that lies in a span, at least in part.

    What goes beyond the end is cut there: nobody knows when the next one came. Before the first one nothing was expected.
    """
    inside = sorted(time for time in times if begin_s <= time <= end_s)
    before = max((time for time in times if time < begin_s), default=begin_s)
    marks = [before, *inside, end_s]
    return max(after - before for before, after in itertools.pairwise(marks))
