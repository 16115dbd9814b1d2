"""Percentiles are values that were measured, at the right rank."""

from __future__ import annotations

import math

import pytest
from harness.stats import largest, median, percentile, summarize
from hypothesis import given
from hypothesis import strategies as st

SAMPLES = st.lists(st.floats(allow_nan=False), min_size=1, max_size=300)
RANKS = st.sampled_from([1, 7, 25, 50, 90, 99, 99.9, 100])


@pytest.mark.parametrize(
    ("count", "rank", "expected"),
    [
        (1, 50, 1),
        (2, 50, 1),
        (3, 50, 2),
        (100, 99, 99),
        (100, 7, 7),
        (101, 99, 100),
        (10, 99, 10),
        (1000, 99.9, 999),
    ],
)
def test_a_percentile_of_the_first_numbers_is_the_nearest_rank(
    count: int, rank: float, expected: int
) -> None:
    """Known answers; 7 of 100 is where binary fractions would be off by one."""
    assert percentile(range(1, count + 1), rank) == expected


@given(SAMPLES, RANKS)
def test_a_percentile_is_a_sample_and_splits_them_rightly(values: list[float], rank: float) -> None:
    """At least `rank` percent do not exceed it, and of what lies below it alone that is not true."""
    found = percentile(values, rank)
    needed = rank * len(values) / 100

    assert found in values
    assert sum(value <= found for value in values) >= needed - 1e-6
    assert sum(value < found for value in values) < needed + 1e-6


@pytest.mark.parametrize("rank", [0, -1, 100.1])
def test_a_rank_out_of_range_is_refused(rank: float) -> None:
    """There is no 0th percentile by nearest rank."""
    with pytest.raises(ValueError, match="rank"):
        percentile([1.0], rank)


@pytest.mark.parametrize("values", [[], [1.0, math.nan]])
def test_what_cannot_be_ordered_has_no_percentile(values: list[float]) -> None:
    """Nothing measured is no zero, and a missing number no number."""
    with pytest.raises(ValueError, match=r"sample|number"):
        percentile(values, 50)


def test_a_summary_holds_what_its_names_say() -> None:
    """On the numbers 1 to 200."""
    found = summarize([float(value) for value in range(200, 0, -1)])

    assert found == (200, 100.5, 100.0, 180.0, 198.0, 200.0)
    assert median([5.0, 1.0, 9.0]) == 5.0


def test_the_largest_share_is_the_tail() -> None:
    """Positions of the slowest, the slowest first, and never none."""
    assert largest([3.0, 9.0, 1.0, 7.0], 0.5) == [1, 3]
    assert largest([3.0, 9.0], 0.01) == [1]
