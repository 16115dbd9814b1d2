"""What nobody can have: the exact optimum where it is known, and policies that know the future."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

from pool_manager.core.policy import Seen, Target


def poisson_optimum_idle_s(rate_per_s: float, lead_s: float, cold_share: float) -> float:
    """Return the least idle pod-seconds per activation at a cold share, for Poisson arrivals.

    The number of pods on order is Poisson whatever the distribution of start-ups (Palm), so a stock S makes
    P(N ≥ S) wait and E[(S - N)+] pods idle. Between two stocks: as much of both as gives the share.
    """
    mean = rate_per_s * lead_s
    at_least, idle_pods, log_chance, count = 1.0, 0.0, -mean, 0
    while True:
        lower = at_least - math.exp(log_chance)
        more_pods = idle_pods + (1.0 - lower)
        if lower <= cold_share:
            part = (at_least - cold_share) / (at_least - lower)
            return (idle_pods + part * (more_pods - idle_pods)) / rate_per_s
        at_least, idle_pods = lower, more_pods
        count += 1
        log_chance += math.log(mean / count)


def poisson_quantile(mean: float, share: float) -> int:
    """Return the smallest count that a Poisson number of that mean exceeds with less than 1 - share."""
    if mean <= 0:
        return 0
    count, log_chance = 0, -mean
    below = math.exp(log_chance)
    while below < share and count < 100_000:
        count += 1
        log_chance += math.log(mean / count)
        below += math.exp(log_chance)
    return count


class RateOracle:
    """Knows the rate of every future second, and hedges as if arrivals were Poisson at it."""

    on_every_event = True

    def __init__(
        self, rates_per_s: Sequence[float], *, lead_s: float, share: float, ahead: float = 1.0
    ) -> None:
        """Plan all seconds.

        Args:
            rates_per_s: of each second.
            lead_s: of a start-up.
            share: of activations that are to find a pod.
            ahead: how many start-ups it looks ahead: more where they vary.
        """
        sums = [0.0, *accumulate(rates_per_s)]
        width = max(1, round(lead_s * ahead))
        seen: dict[int, int] = {}
        self._plan = []
        for second in range(len(rates_per_s)):
            mean = sums[min(second + width, len(rates_per_s))] - sums[second]
            key = round(mean * 50)
            if key not in seen:
                seen[key] = poisson_quantile(max(key / 50, 1e-6), share)
            self._plan.append(seen[key])
        self._second = 0

    def activated(self, klass: str, *, waited: bool) -> None:
        """It knew."""

    def tick(self, seen: Seen) -> Target:
        """Hold what is planned."""
        self._second += 1
        return Target(self._plan[min(self._second, len(self._plan) - 1)])


class Seer:
    """Knows every arrival, but not how long each pod will take: it orders each a while before its arrival."""

    on_every_event = False

    def __init__(self, arrivals_s: Sequence[float], ahead_s: float) -> None:
        """Order so long before."""
        self._arrivals = arrivals_s
        self._ahead_s = ahead_s
        self._second = self._came = self._ordered = 0

    def activated(self, klass: str, *, waited: bool) -> None:
        """It knew."""
        self._came += 1

    def tick(self, seen: Seen) -> Target:
        """Order for what comes in the second that is `ahead_s` from now: position = ordered - come."""
        self._second += 1
        arrivals = self._arrivals
        until = self._second + 1 + self._ahead_s
        while self._ordered < len(arrivals) and arrivals[self._ordered] < until:
            self._ordered += 1
        return Target(self._ordered - self._came)
