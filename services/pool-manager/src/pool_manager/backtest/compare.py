"""Puts policies side by side on one load: what each costs, and how long who waits, at every setting."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import msgspec

from pool_manager.backtest.base_stock import replay_fixed
from pool_manager.backtest.oracles import RateOracle, Seer
from pool_manager.backtest.replay import Load, Outcome, Policy, replay
from pool_manager.backtest.rivals import KedaLike, KnativeLike
from pool_manager.core.policy import SelfTuning
from shared.pools import Promise

OURS = "self-tuning"
SHARES = (0.1, 0.05, 0.02, 0.015, 0.01, 0.007, 0.005)
"""Promises that are tried, from the cheapest on."""
THRESHOLDS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2)
Make = Callable[[], Policy]


class Point(msgspec.Struct, frozen=True):
    """One policy at one setting."""

    setting: str
    outcome: Outcome


class Curve(msgspec.Struct, frozen=True):
    """One policy at several settings, from the cheapest on."""

    policy: str
    points: tuple[Point, ...]

    def idle_at(self, cold_share: float) -> float | None:
        """Return the idle pod-seconds per activation at a cold share, between two settings; None: it never gets there."""
        cheapest = None
        for before, after in zip((None, *self.points), self.points, strict=False):
            if after.outcome.cold_share > cold_share:
                continue
            found = after.outcome.idle_s
            if before is not None and before.outcome.cold_share > cold_share:
                found = _between(before.outcome, after.outcome, cold_share)
            cheapest = found if cheapest is None else min(cheapest, found)
        return cheapest


def _between(more: Outcome, fewer: Outcome, cold_share: float) -> float:
    """Return the idle seconds where a share of the time the one holds and else the other."""
    part = (more.cold_share - cold_share) / (more.cold_share - fewer.cold_share)
    return more.idle_s + part * (fewer.idle_s - more.idle_s)


def self_tuning(cold_share: float) -> SelfTuning:
    """Return the production policy with a promise."""
    return SelfTuning(Promise(cold_share=cold_share))


def ours(load: Load, shares: Sequence[float] = SHARES) -> Curve:
    """Replay the production policy, promise by promise."""
    return _curve(load, OURS, {f"ε {share:g}": _ours(share) for share in shares})


def _ours(share: float) -> Make:
    return lambda: self_tuning(share)


def fixed(load: Load, lead_s: float, cold_share: float) -> Curve:
    """Replay fixed stocks around the smallest that holds the share."""
    rate = len(load.arrivals_s) / load.arrivals_s[-1]
    low, high = 0, max(8, math.ceil(8 * rate * lead_s) + 8)
    tried: dict[int, Outcome] = {}

    def cold(stock: int) -> float:
        if stock not in tried:
            tried[stock] = replay_fixed(load, stock)
        return tried[stock].cold_share

    while cold(high) > cold_share and high < 4096:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if cold(middle) <= cold_share else (middle, high)
    points = tuple(Point(f"N {stock}", tried[stock]) for stock in sorted(tried) if stock)
    return Curve("fixed N", points)


def others(load: Load) -> list[Curve]:
    """Replay what others do, at several settings."""
    keda = {f"threshold {each:g}": _keda(each) for each in THRESHOLDS}
    knative = {f"utilisation {each:g}": _knative(each) for each in THRESHOLDS}
    return [_curve(load, "KEDA-like", keda), _curve(load, "Knative-like", knative)]


def _keda(threshold: float) -> Make:
    return lambda: KedaLike(threshold)


def _knative(utilisation: float) -> Make:
    return lambda: KnativeLike(utilisation)


def oracles(load: Load, lead_s: float) -> list[Curve]:
    """Replay those that know the future."""
    rates = load.rates_per_s or ()
    by_rate = {
        f"{share:g}, {ahead:g} start-ups ahead": _rate_oracle(rates, lead_s, share, ahead)
        for ahead, share in (
            (1.0, 0.9),
            (1.0, 0.97),
            (1.0, 0.99),
            (1.3, 0.99),
            (1.6, 0.999),
            (2.5, 0.999),
        )
    }
    seers = {
        f"{factor:g} start-ups ahead": _seer(load, factor * lead_s)
        for factor in (1.1, 1.4, 1.6, 1.8, 2.2)
    }
    return [_curve(load, "rate oracle", by_rate), _curve(load, "seer", seers)]


def _rate_oracle(rates: Sequence[float], lead_s: float, share: float, ahead: float) -> Make:
    return lambda: RateOracle(rates, lead_s=lead_s, share=share, ahead=ahead)


def _seer(load: Load, ahead_s: float) -> Make:
    return lambda: Seer(load.arrivals_s, ahead_s)


def _curve(load: Load, policy: str, made: Mapping[str, Make]) -> Curve:
    return Curve(policy, tuple(Point(name, replay(load, make())) for name, make in made.items()))
