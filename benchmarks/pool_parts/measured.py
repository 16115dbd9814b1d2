"""What the policy of pools reaches on one workload: over several seeds, beside others, the optimum and oracles."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from functools import lru_cache
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


class Mean(NamedTuple):
    """A mean over seeds."""

    value: float
    error: float
    """Its standard error: how far another draw of as many seeds may be off; 0 for one."""

    def __str__(self) -> str:
        """Return both, as people read them."""
        return f"{self.value:.3g} ± {self.error:.1g}" if self.error else f"{self.value:.3g}"


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


class OfSeed(NamedTuple):
    """One draw of a workload through the production policy, and what is compared draw by draw."""

    ours: Curve
    fixed: Curve
    tiers: TierOutcome


class Reached(NamedTuple):
    """What one workload's draws say together, at 1 %."""

    ours_idle_s: Mean | None
    """At exactly 1 % cold, between two promises; None: a draw never gets there."""
    cold_shares: dict[float, Mean]
    """Promise -> share that was reached."""
    p99_wait_s: Mean
    others_idle_s: dict[str, float | None]
    """Each other policy, at exactly 1 % cold; None: never gets there."""
    fixed_ratio: Mean | None
    """Ours over the best fixed number."""
    optimum_ratio: Mean | None
    """Against the exact optimum at the same cold share, where there is one."""
    tiers_ratio: Mean
    """Cost of two tiers over that of one, by the same promise."""
    tiers_cost_s: Mean
    tiers_p999_wait_s: float
    """Of the worst draw."""
    curves: Curves


@lru_cache(maxsize=2)
def load(name: str, seed: int) -> Load:
    """Return a workload; its parts are asked for one after another."""
    return WORKLOADS[name](LEAD_S, seed)


def replay_ours(name: str, seed: int, share: float) -> Curve:
    """Replay the production policy with one promise."""
    return ours(load(name, seed), (share,))


def replay_fixed_stocks(name: str, seed: int) -> Curve:
    """Replay fixed stocks around the smallest that holds 1 %."""
    return fixed(load(name, seed), LEAD_S, SHARE)


def replay_two_tiers(name: str, seed: int) -> TierOutcome:
    """Replay two tiers of the production policy."""
    draws = random.Random(f"promotions {seed}")
    promotions = [PROMOTE_S * draws.lognormvariate(-0.03, 0.25) for _ in range(10_007)]
    return replay_tiers(load(name, seed), promotions, Promise(cold_share=SHARE))


def replay_others(name: str) -> list[Curve]:
    """Replay what others do, on the first draw."""
    return others(load(name, 0))


def replay_oracles(name: str) -> list[Curve]:
    """Replay those that know the future, on the first draw."""
    return oracles(load(name, 0), LEAD_S)


def together(name: str, seeds: Sequence[OfSeed], beside: Sequence[Curve]) -> Reached:
    """Return what the draws of a workload say together.

    Args:
        name: of the workload.
        seeds: its draws.
        beside: others' curves and oracles', of the first draw.
    """
    told = [_at(seed.ours, SHARE) for seed in seeds]
    rest: dict[str, float | None] = {curve.policy: curve.idle_at(SHARE) for curve in beside}
    fixed_idle_s = _over(seeds, lambda seed: seed.fixed.idle_at(SHARE))
    rest["fixed N"] = None if fixed_idle_s is None else fixed_idle_s.value
    is_poisson = name == "poisson"
    return Reached(
        ours_idle_s=_over(seeds, lambda seed: seed.ours.idle_at(SHARE)),
        cold_shares={
            share: _mean([_at(seed.ours, share).cold_share for seed in seeds]) for share in SHARES
        },
        p99_wait_s=_mean([each.wait_p99_s for each in told]),
        others_idle_s=rest,
        fixed_ratio=_over(seeds, _over_fixed),
        optimum_ratio=_mean([_over_optimum(each) for each in told]) if is_poisson else None,
        tiers_ratio=_mean(
            [seed.tiers.cost_s / one.idle_s for seed, one in zip(seeds, told, strict=True)]
        ),
        tiers_cost_s=_mean([seed.tiers.cost_s for seed in seeds]),
        tiers_p999_wait_s=max(seed.tiers.wait_p999_s for seed in seeds),
        curves=Curves(
            f"{name}, a start takes {LEAD_S:g} s", [seeds[0].ours, seeds[0].fixed, *beside]
        ),
    )


def _over_fixed(seed: OfSeed) -> float | None:
    mine, best = seed.ours.idle_at(SHARE), seed.fixed.idle_at(SHARE)
    return None if mine is None or best is None else mine / best


def _over_optimum(found: Outcome) -> float:
    return found.idle_s / poisson_optimum_idle_s(RATE_PER_S, LEAD_S, found.cold_share)


def _at(curve: Curve, share: float) -> Outcome:
    return next(point.outcome for point in curve.points if point.setting == f"ε {share:g}")


def _over(seeds: Sequence[OfSeed], value: Callable[[OfSeed], float | None]) -> Mean | None:
    """Return the mean of something that a draw may not have; None: one has not."""
    found = [value(seed) for seed in seeds]
    there = [each for each in found if each is not None]
    return _mean(there) if len(there) == len(found) else None


def _mean(values: Sequence[float]) -> Mean:
    count = len(values)
    mean = sum(values) / count
    if count < 2:
        return Mean(mean, 0.0)
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / (count - 1))
    return Mean(mean, spread / math.sqrt(count))
