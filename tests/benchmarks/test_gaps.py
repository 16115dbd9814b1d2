"""The longest time in which nothing happened, as `bench queue-failover` counts it."""

from __future__ import annotations

import pytest
from failover_parts.gaps import late_s, longest_gap_s


@pytest.mark.parametrize(
    ("moments", "gap_s"),
    [
        ([9.9, 10.1, 10.2, 13.0, 13.1, 20.1], 7.0),
        ([9.0, 12.0, 13.0, 14.0, 15.0, 16.0, 17.0, 18.0, 19.0, 20.0], 3.0),
        ([20.5, 19.0, 18.0, 17.0, 16.0, 15.0, 14.0, 13.0, 12.0, 11.0, 10.0], 1.5),
        ([9.5], 10.5),
        ([], 10.0),
        ([1.0, 2.0, 10.0, 20.0], 10.0),
    ],
    ids=["inside", "begun before the fault", "ended after the watch", "nothing since", "never",
         "long before does not count"],
)  # fmt: skip
def test_a_gap_counts_whole_wherever_it_begins_and_ends(moments: list[float], gap_s: float) -> None:
    """Between 10 and 20 s."""
    assert longest_gap_s(moments, 10.0, 20.0) == pytest.approx(gap_s)


def test_lateness_is_what_exceeds_the_usual() -> None:
    """Never below nothing."""
    assert late_s([0.5, 1.0, 8.0], 1.0) == [0.0, 0.0, 7.0]
