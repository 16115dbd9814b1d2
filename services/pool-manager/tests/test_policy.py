"""The policy that makes a pool's stock from demand: what holds whatever comes."""

from __future__ import annotations

import math
import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pool_manager.core.policy import Seen, SelfTuning, State
from pool_manager.core.policy.demand import Z_MAX, Z_MIN
from pool_manager.core.policy.explain import explain
from pool_manager.core.policy.price import cold_share_of
from pool_manager.core.policy.schedule import bounds_at
from shared.errors import InvalidMessage
from shared.pools import Hours, Promise, parse_pools

Second = tuple[list[bool], list[float], int]
"""(whether each activation waited, start-ups that were seen, pods with a session)"""
seconds = st.lists(
    st.tuples(
        st.lists(st.booleans(), max_size=12),
        st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=3),
        st.integers(0, 10_000),
    ),
    max_size=80,
)
shares = st.floats(0.0005, 0.5)


def run(policy: SelfTuning, brought: list[Second]) -> list[int]:
    """Let a policy see these seconds; return the position after each."""
    positions = []
    for waits, startups, bound in brought:
        for waited in waits:
            policy.activated("interactive", waited=waited)
        positions.append(policy.tick(Seen(startups_s=startups, bound=bound)).position)
    return positions


@given(seconds, shares, shares)
@settings(max_examples=60, deadline=None)
def test_who_promises_more_never_holds_less(
    brought: list[Second], one: float, other: float
) -> None:
    """Seeing the same, a smaller cold share has a stock that is as large at least, each second."""
    stricter = run(SelfTuning(Promise(cold_share=min(one, other))), brought)
    laxer = run(SelfTuning(Promise(cold_share=max(one, other))), brought)

    assert all(more >= fewer for more, fewer in zip(stricter, laxer, strict=True))


@given(seconds, shares, st.floats(0, 1))
@settings(max_examples=60, deadline=None)
def test_no_input_makes_a_stock_that_is_no_sane_number(
    brought: list[Second], share: float, faults: float
) -> None:
    """Start-ups that no clock measures (negative, infinite, NaN) and any demand leave all of the state finite."""
    policy = SelfTuning(Promise(cold_share=share, fault_share=faults, stock_max=500))

    positions = run(policy, brought)

    assert all(0 <= position <= 500 for position in positions)
    for demand in policy.state.classes.values():
        assert Z_MIN <= demand.z <= Z_MAX
        assert math.isfinite(demand.slow_per_s)
        assert demand.slow_per_s >= 0
        assert math.isfinite(demand.dispersion)
        assert len(demand.window) <= 601
        assert len(demand.recent) <= 602
    assert 0 <= policy.state.lead_s <= 600


@given(seconds, seconds, shares)
@settings(max_examples=40, deadline=None)
def test_a_state_that_was_stored_goes_on_as_if_nothing_had_happened(
    before: list[Second], after: list[Second], share: float
) -> None:
    """A manager that takes over from the record decides what the one before would have."""
    promise = Promise(cold_share=share)
    policy = SelfTuning(promise)
    run(policy, before)
    stored = msgspec.json.encode(policy.state)
    successor = SelfTuning(promise, msgspec.json.decode(stored, type=State))

    assert run(successor, after) == run(policy, after)
    assert successor.state == policy.state


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3])
def test_in_the_long_run_as_many_wait_as_was_promised(share: float) -> None:
    """Whatever the distribution, here one that no formula of ours expects: sometimes ten times as many at once."""
    draws, policy = random.Random(7), SelfTuning(Promise(cold_share=share))
    waited = count = 0
    for _ in range(20_000):
        came = draws.choice((0, 0, 0, 1, 1, 2, 10))
        for number in range(came):
            cold = number >= policy.target.position
            policy.activated("interactive", waited=cold)
            waited, count = waited + cold, count + 1
        policy.tick(Seen(startups_s=(0.5,) if came else ()))

    assert waited / count == pytest.approx(share, rel=0.2)


def test_a_surge_raises_the_stock_at_once_and_chance_does_not() -> None:
    """The fast rate counts only when the last seconds brought more than the slow rate explains."""
    policy = SelfTuning(Promise(cold_share=0.01))
    steady: list[Second] = [([False], [10.0], 0)] * 1200
    before = run(policy, steady)[-1]
    same = run(policy, [([False, False], [], 0), ([], [], 0)] * 5)[-1]
    surged = run(policy, [([False] * 5, [], 0)] * 10)[-1]

    assert same <= before + 2
    assert surged > 2 * before


def test_the_stock_of_a_while_ago_is_held_before_it_falls() -> None:
    """A pool does not breathe with each second's chance: what was needed lately stays for a start-up, 15 s at least."""
    policy = SelfTuning(Promise(cold_share=0.05))
    run(policy, [([False, True], [1.0], 0)] * 300)
    high = run(policy, [([True] * 9, [], 0)] * 5)[-1]
    falling = run(policy, [([], [], 0)] * 900)

    assert set(falling[:13]) == {high}
    assert falling[-1] < high


def test_sessions_that_lost_their_pods_are_no_demand() -> None:
    """Faults come in heaps: counted as demand they would raise the stock for hours; they have the fault reserve."""
    policy = SelfTuning(Promise(cold_share=0.01, fault_share=0.3))
    for _ in range(50):
        policy.activated("recovery", waited=True)
    target = policy.tick(Seen(bound=300))

    assert policy.state.classes == {}
    assert target.position == target.stock + target.fault_reserve == 90


def test_batch_has_warm_pods_only_where_its_own_promise_says_so() -> None:
    """By default nothing waits warm for it."""
    without = SelfTuning(Promise(cold_share=0.01))
    with_stock = SelfTuning(Promise(cold_share=0.01, batch_cold_share=0.3))
    for policy in (without, with_stock):
        for second in range(300):
            policy.activated("batch", waited=second % 3 == 0)
            policy.activated("interactive", waited=False)
            policy.tick(Seen(startups_s=(5.0,)))

    assert "batch" not in without.state.classes
    assert with_stock.target.position > without.target.position


@given(st.floats(1e-4, 1e4), st.floats(1e-4, 1e4), st.floats(0, 1e3), st.floats(0.1, 1e3))
@settings(max_examples=100, deadline=None)
def test_prices_make_a_share_that_falls_with_what_a_wait_costs(
    idle: float, cold: float, rate: float, spread: float
) -> None:
    """Twice as dear waits never mean more of them; the share is always one that can be promised."""

    def share(cost: float) -> float:
        return cold_share_of(
            idle_cost_per_hour=idle, cold_cost=cost, rate_per_s=rate, spread=spread
        )

    assert 0 < share(2 * cold) <= share(cold) < 1


def test_prices_balance_where_one_pod_more_costs_what_it_saves() -> None:
    """At 0.5/s and 45 s, a pod-second for 1, a wait for 100: near the share that the exact sums for Poisson give."""
    mean, at_most, stock = 22.5, 0.0, 0
    while True:
        chance = math.exp(-mean + stock * math.log(mean) - math.lgamma(stock + 1))
        at_most += chance
        if stock > mean and 0.5 * 100.0 * chance < at_most:
            break
        stock += 1
    share = cold_share_of(
        idle_cost_per_hour=3600.0, cold_cost=100.0, rate_per_s=0.5, spread=math.sqrt(mean)
    )

    assert share == pytest.approx(1 - at_most + chance, rel=0.3)


def test_a_promise_by_prices_begins_with_the_first_demand_and_wakes_again_after_a_quiet_night() -> (
    None
):
    """Without demand nothing is worth its price, but what comes then is seen, the first time and each time after."""
    policy = SelfTuning(Promise(idle_cost_per_hour=1.0, cold_cost=1.0))
    day: list[Second] = [([False], [5.0], 0)] * 600
    night: list[Second] = [([], [], 0)] * 6 * 3600

    assert run(policy, day)[-1] > 1
    assert run(policy, night)[-1] == 0
    assert run(policy, day)[-1] > 1


def test_hours_set_floors_and_ceilings_also_over_midnight() -> None:
    """Monday 22:00 to 06:00 reaches into Tuesday; outside the pool's own bounds hold."""
    night = Hours(days=("mon",), begin="22:00", end="06:00", stock_min=7, stock_max=9)
    promise = Promise(cold_share=0.01, stock_min=1, stock_max=50, hours=(night,))

    def at(day: int, hour: int) -> tuple[int, int | None]:
        bounds = bounds_at(promise, day * 1440 + hour * 60)
        return bounds.floor, bounds.ceiling

    assert at(0, 23) == at(1, 5) == (7, 9)
    assert at(0, 5) == at(1, 6) == at(1, 23) == (1, 50)


@pytest.mark.parametrize(
    ("promise", "said"),
    [
        ("", "cold_share expected"),
        ("cold_cost = 1.0", "cold_share expected"),
        ("cold_share = 0.7", "cold_share"),
        ("cold_share = 0.01\nstock_min = 5\nstock_max = 4", "stock_min 5 is above stock_max 4"),
        ('cold_share = 0.01\n[[pool.promise.hours]]\nbegin = "25:00"\nend = "01:00"', "begin"),
    ],
)
def test_promises_that_cannot_be_kept_are_refused_with_the_reason(promise: str, said: str) -> None:
    """Whoever declares a pool reads what is wrong with it."""
    with pytest.raises(InvalidMessage, match=said):
        parse_pools(f'[[pool]]\nname = "p"\n[pool.promise]\n{promise}')


def test_where_prices_allow_no_stock_that_is_what_is_explained() -> None:
    """Nobody searches for a fault where a warm pod is just not worth it; at a demand that pays for it nothing is said of that."""
    promise = Promise(idle_cost_per_hour=3600.0, cold_cost=1.0)
    rare, busy = SelfTuning(promise), SelfTuning(promise)
    for second in range(2000):
        for policy, every in ((rare, 500), (busy, 1)):
            for _ in range(0 if second % every else 2):
                policy.activated("interactive", waited=False)
            policy.tick(Seen(startups_s=(1.0,)))

    said = [" ".join(explain(policy, policy.target, 0)) for policy in (rare, busy)]

    assert rare.target.stock == 0
    assert "the prices allow no stock now" in said[0]
    assert "(3600 an hour)" in said[0]
    assert "prices" not in said[1]


def test_a_demand_that_drifts_is_forecast_by_what_came_lately_and_chance_is_not() -> None:
    """Twice as many for ten minutes, then half: the last minutes foretell that. Of arrivals at random they foretell nothing,
    and following them would be noise in the stock."""
    draws = random.Random(3)
    drifting, steady = (SelfTuning(Promise(cold_share=0.05)) for _ in range(2))
    for second in range(14_400):
        high = second // 600 % 2 == 0
        for policy, chance in ((drifting, 0.8 if high else 0.2), (steady, 0.5)):
            for _ in range(draws.random() < chance):
                policy.activated("interactive", waited=False)
            policy.tick(Seen(startups_s=(20.0,)))

    leanings = [policy.state.classes["interactive"].leaning for policy in (drifting, steady)]
    assert leanings[0] > 0.6
    assert leanings[1] < 0.2
    demand = drifting.state.classes["interactive"]
    assert abs(demand.expected(20.0) / 20.0 - 0.2) < abs(demand.slow_per_s - 0.2)


def test_a_pool_begins_with_what_chance_alone_asks_for() -> None:
    """A z that begins far from where it must be makes the share wrong until it is there: it begins at the promise's own."""
    strict, lax = SelfTuning(Promise(cold_share=0.005)), SelfTuning(Promise(cold_share=0.1))
    for policy in (strict, lax):
        policy.activated("interactive", waited=False)

    first = [policy.state.classes["interactive"].z for policy in (strict, lax)]
    assert first == pytest.approx([2.58, 1.28], abs=0.01)
