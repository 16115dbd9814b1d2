"""What the policy of pools reaches on one workload: over several seeds, beside others, the optimum and oracles."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from pool_manager.backtest.compare import Curve, fixed, oracles, others, ours
from pool_manager.backtest.oracles import poisson_optimum_idle_s
from pool_manager.backtest.picture import HEIGHT, fields
from pool_manager.backtest.replay import Load, Outcome
from pool_manager.backtest.tiers import TierOutcome, replay_tiers
from pool_manager.backtest.workloads import RATE_PER_S, WORKLOADS
from shared.pools import Promise

LEAD_S = 45.0
PROMOTE_S = 2.0
"""A paused pod is warm after so long: an assumption, and a generous one."""
SHARE = 0.01
SHARES = (0.1, 0.05, 0.02, 0.015, 0.01, 0.007, 0.005)


class Curves(NamedTuple):
    """The curves of one workload as a picture."""

    title: str
    curves: Sequence[Curve]

    @property
    def height(self) -> int:
        """Two fields."""
        return 2 * HEIGHT

    def draw(self, top: int) -> str:
        """Return both."""
        return fields(self.title, self.curves, top)


class Reached(NamedTuple):
    """Means over the seeds of one workload, at 1 %."""

    name: str
    ours_idle_s: float
    """At exactly 1 % cold, between two promises."""
    told: Outcome
    """With the promise of 1 %, of the first seed."""
    cold_shares: dict[float, float]
    """Promise -> share that was reached."""
    p99_wait_s: float
    others_idle_s: dict[str, float | None]
    """Each other policy, at exactly 1 % cold; None: never gets there."""
    optimum_ratio: float | None
    """Against the exact optimum at the same cold share, where there is one."""
    tiers_ratio: float
    """Cost of two tiers over that of one, by the same promise."""
    tiers: TierOutcome
    curves: Curves


def measure(name: str, seeds: int) -> Reached:
    """Replay a workload through everything."""
    made = [ours(load(name, seed), SHARES) for seed in range(seeds)]
    first = load(name, 0)
    curves = [made[0], fixed(first, LEAD_S, SHARE), *others(first), *oracles(first, LEAD_S)]
    told = [_at(curve, SHARE) for curve in made]
    both = [tiers(load(name, seed), seed) for seed in range(seeds)]
    fixed_idle = [fixed(load(name, seed), LEAD_S, SHARE).idle_at(SHARE) for seed in range(1, seeds)]
    rest: dict[str, float | None] = {curve.policy: curve.idle_at(SHARE) for curve in curves[1:]}
    rest["fixed N"] = _mean([idle for idle in (rest["fixed N"], *fixed_idle) if idle is not None])
    return Reached(
        name=name,
        ours_idle_s=_mean(
            [curve.idle_at(SHARE) or _at(curve, SHARES[-1]).idle_s for curve in made]
        ),
        told=told[0],
        cold_shares={
            share: _mean([_at(curve, share).cold_share for curve in made]) for share in SHARES
        },
        p99_wait_s=_mean([each.wait_p99_s for each in told]),
        others_idle_s=rest,
        optimum_ratio=_mean([_over_optimum(each) for each in told]) if name == "poisson" else None,
        tiers_ratio=_mean([two.cost_s / one.idle_s for two, one in zip(both, told, strict=True)]),
        tiers=max(both, key=lambda each: each.wait_p999_s),
        curves=Curves(f"{name}, a start takes {LEAD_S:g} s", curves),
    )


def load(name: str, seed: int) -> Load:
    """Return a workload."""
    return WORKLOADS[name](LEAD_S, seed)


def tiers(given: Load, seed: int) -> TierOutcome:
    """Replay two tiers."""
    draws = random.Random(f"promotions {seed}")
    promotions = [PROMOTE_S * draws.lognormvariate(-0.03, 0.25) for _ in range(10_007)]
    return replay_tiers(given, promotions, Promise(cold_share=SHARE))


def _over_optimum(found: Outcome) -> float:
    return found.idle_s / poisson_optimum_idle_s(RATE_PER_S, LEAD_S, found.cold_share)


def _at(curve: Curve, share: float) -> Outcome:
    return next(point.outcome for point in curve.points if point.setting == f"ε {share:g}")


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
