"""Several pool-managers of one pool under a load: what a death in mid-burst costs, and that nobody orders twice."""

from __future__ import annotations

import pytest

from pool_manager.backtest.fleet import Fleet
from pool_manager.core.peers import DEAD_AFTER_S
from shared.pools import PoolSpec, Promise

LEAD_S = 2.0
RATE_PER_S = 40.0
OVER_MAX = 0.1


def fleet(managers: int) -> Fleet:
    """Return a pool of about 150 warm pods that was held for a while."""
    spec = PoolSpec(
        name="p",
        stock=150,
        pods_max=1_000_000,
        starting_max=1000,
        promise=Promise(cold_share=0.05),
    )
    made = Fleet(spec, managers, lead_s=LEAD_S)
    made.load(RATE_PER_S, 5.0, 30.0)
    made.run(15.0)
    return made


@pytest.mark.parametrize("seed_s", [0.0, 0.3, 0.7])
def test_a_decider_that_dies_in_mid_burst_leaves_hardly_a_pod_too_many(seed_s: float) -> None:
    """Three times the demand, and the manager that decides dies in it: the other goes on from its record, and no pod is
    ordered for both."""
    pool = fleet(2)
    pool.load(2 * RATE_PER_S, 15.0, 25.0)
    pool.run(18.0 + seed_s)
    dead = pool.decider()
    assert dead is not None
    before = pool.told.decided_by[-1]
    dead.lives = False

    pool.run(18.0 + seed_s + DEAD_AFTER_S + 2.5)
    successor = pool.decider()
    pool.run(30.0)

    assert successor is not None
    assert successor is not dead
    assert pool.told.decided_by[-2:] == [before, successor.name]
    assert pool.told.over <= OVER_MAX
    assert abs(pool.over) <= OVER_MAX * successor.slots.target
    assert successor.slots.target > 3 * RATE_PER_S * LEAD_S
    assert not pool.waiting


def test_managers_beside_each_other_start_one_pod_for_each_activation() -> None:
    """Three hear the same bells at slightly different times: as many pods are started as are used or left."""
    pool = fleet(3)
    pool.run(30.0)

    told, left = pool.told, len(pool.warm) + len(pool.starting)
    assert told.started == told.claims - len(pool.waiting) + left + told.ended
    assert told.ended < 0.05 * told.started
    assert pool.told.over <= OVER_MAX
    assert len(set(pool.told.decided_by)) == 1
