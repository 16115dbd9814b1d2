"""What is known of one class's demand: two rates, how bursty it is, and how many of its activations had to wait."""

from __future__ import annotations

import math

import msgspec

SLOW_HALF_LIFE_S = 900.0
FAST_HALF_LIFE_MIN_S = 5.0
DISPERSION_HALF_LIFE_S = 3600.0
REACHED_HALF_LIFE_S = 3600.0
SURGE_DEVIATIONS = 3.0
Z_FIRST, Z_MIN, Z_MAX = 2.0, -3.0, 25.0
STEP_MAX = 0.1
"""Largest step of z for one activation; it is smaller where many arrive while a pod starts, since these tell the same."""
EXPECTED_MIN = 0.25
"""Fewer expected arrivals than that say nothing about dispersion."""
PER_SECOND_MAX = 1_000_000
"""More activations in a second are counted as so many: no input makes a number of the state infinite."""


class Demand(msgspec.Struct):
    """One class's demand, updated once a second. Rates are activations per second."""

    slow_per_s: float = 0.0
    fast_per_s: float = 0.0
    dispersion: float = 1.0
    """Variance of the number of arrivals while a pod starts, over that of a Poisson process of the same rate."""
    z: float = Z_FIRST
    """Standard deviations above the expected that the stock holds."""
    seconds: int = 0
    """For how long it was watched."""
    count: int = 0
    """Activations of the present second."""
    window: list[int] = []
    """Activations of each of the last seconds, as many as a start takes."""
    recent: list[tuple[int, int]] = []
    """(second, stock): the largest of the last seconds first, then what will be the largest after it."""
    judged: float = 0.0
    """Activations of about the last hour."""
    waited: float = 0.0
    """Those of them that had to wait for a pod."""

    @property
    def cold_share(self) -> float:
        """Share of the activations of about the last hour that waited for a pod."""
        return self.waited / self.judged if self.judged >= 1 else 0.0

    def expected(self, lead_s: float) -> float:
        """Return how many activations are expected in so many seconds, by the rate that holds now."""
        rate = self.slow_per_s
        if self.is_surging(lead_s):
            rate = max(rate, self.fast_per_s)
        return rate * lead_s

    def is_surging(self, lead_s: float) -> bool:
        """Return whether the last seconds brought more than chance explains."""
        width_s = fast_half_life_s(lead_s) / math.log(2)
        beyond = (self.fast_per_s - self.slow_per_s) * width_s
        return beyond > SURGE_DEVIATIONS * math.sqrt(max(self.slow_per_s * width_s, 1.0))

    def spread(self, lead_s: float) -> float:
        """Return one standard deviation of the activations in so many seconds."""
        return math.sqrt(max(self.dispersion, 1.0) * max(self.expected(lead_s), 1.0))


def fast_half_life_s(lead_s: float) -> float:
    """Return the half-life of the fast rate where a start takes `lead_s`."""
    return max(lead_s / 2, FAST_HALF_LIFE_MIN_S)


def activated(demand: Demand) -> None:
    """Take in one activation."""
    demand.count = min(demand.count + 1, PER_SECOND_MAX)


def judge(demand: Demand, lead_s: float, *, waited: bool, cold_share: float) -> None:
    """Learn from one activation: z moves so that in the long run `cold_share` wait (adaptive conformal inference)."""
    demand.judged += 1
    demand.waited += waited
    step = min(STEP_MAX, 0.5 / max(demand.slow_per_s * lead_s, 1.0))
    demand.z = min(max(demand.z + step * (waited - cold_share), Z_MIN), Z_MAX)


def end_second(demand: Demand, lead_s: float) -> None:
    """Close the present second: rates, dispersion and the window move on by one."""
    count, demand.count = demand.count, 0
    demand.seconds += 1
    _note_window(demand, count, lead_s)
    slow = _weight(SLOW_HALF_LIFE_S)
    if demand.seconds < 3 * SLOW_HALF_LIFE_S:
        slow = max(slow, 1.0 / (demand.seconds + 1.0))  # the mean so far, until there is enough
    demand.slow_per_s += slow * (count - demand.slow_per_s)
    demand.fast_per_s += _weight(fast_half_life_s(lead_s)) * (count - demand.fast_per_s)
    fade = 1.0 - _weight(REACHED_HALF_LIFE_S)
    demand.judged *= fade
    demand.waited *= fade


def _note_window(demand: Demand, count: int, lead_s: float) -> None:
    size = max(1, round(lead_s))
    window = demand.window
    window.append(count)
    if len(window) > size:
        del window[: len(window) - size]
    if len(window) < size:
        return
    expected = max(demand.slow_per_s * size, EXPECTED_MIN)
    found = (sum(window) - expected) ** 2 / expected
    weight = _weight(DISPERSION_HALF_LIFE_S + size)
    demand.dispersion += weight * (found - demand.dispersion)


def _weight(half_life_s: float) -> float:
    """Return the weight of one second where what is older counts half after `half_life_s`."""
    return 1.0 - math.exp2(-1.0 / half_life_s)
