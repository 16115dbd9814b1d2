"""When a session that lost its worker counts as passed over."""

from __future__ import annotations

import pytest
from priority_parts.watch import UNDER_WAY_S, Claim, Watch, passed_over, recovered


def heard(*claims: Claim, born: dict[str, float]) -> Watch:
    """Return what was heard where the token of `lost` was stored at 10 s."""
    return Watch(born=born, tokens={"lost": 10.0}, claims=list(claims))


RECOVERED = Claim(10.5, "lost", "recovery", "w2")
OTHER = Claim(10.3, "other", "interactive", "w1")


def test_a_worker_that_came_after_the_token_and_took_something_else_passed_it_over() -> None:
    """Also where the session was never claimed at all."""
    late = 10.0 + 2 * UNDER_WAY_S

    assert passed_over(heard(OTHER, RECOVERED, born={"w1": late, "w2": late})) == {"lost"}
    assert passed_over(heard(OTHER, born={"w1": late})) == {"lost"}


@pytest.mark.parametrize(
    ("claims", "born"),
    [
        ([OTHER, RECOVERED], {"w1": 9.9, "w2": 10.4}),
        ([OTHER, RECOVERED], {"w1": 10.0 + UNDER_WAY_S / 2, "w2": 10.4}),
        ([RECOVERED, Claim(10.6, "other", "batch", "w1")], {"w1": 10.4, "w2": 10.4}),
        ([Claim(10.3, "older", "recovery", "w1"), RECOVERED], {"w1": 10.2, "w2": 10.4}),
    ],
    ids=["was there before", "was about to ask", "claimed before", "another lost one"],
)
def test_a_worker_that_could_not_know_passed_nobody_over(
    claims: list[Claim], born: dict[str, float]
) -> None:
    """It asked before the token was there, or took one that was as urgent."""
    assert passed_over(heard(*claims, born=born)) == set()


def test_recoveries_are_counted_from_token_to_claim() -> None:
    """One that was not claimed has no time."""
    assert recovered(heard(RECOVERED, born={})) == {"lost": 0.5}
    assert recovered(heard(OTHER, born={})) == {}
