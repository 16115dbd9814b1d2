"""What is known of one class's demand: its rates, how well they tell what comes, and how many of its activations had to wait.

What comes while a pod starts is forecast from a slow rate, and from how far the last few start-ups' rate is off it, by as much
as that has told of what came so far (the least squares of the past): nothing for arrivals at random, most of it where demand
drifts or lingers. The stock's reserve is for what such a forecast misses, not for what it knew.
"""

from __future__ import annotations

import math

import msgspec

SLOW_HALF_LIFE_S = 900.0
FAST_HALF_LIFE_MIN_S = 5.0
MIDDLE_LEADS = 2.0
"""Half-life of the middle rate, in start-ups: long enough to be no noise, short enough to be news."""
LEARNED_HALF_LIFE_S = 3600.0
REACHED_HALF_LIFE_S = 3600.0
SURGE_DEVIATIONS = 3.0
Z_FIRST, Z_MIN, Z_MAX = 2.0, -3.0, 25.0
STEP_MAX = 0.1
"""Largest step of z for one activation; it is smaller where many arrive while a pod starts, since these tell the same."""
SQUARES_FIRST = 0.02
"""As if the middle rate had been off by hardly anything and had told nothing: an eighth of what chance alone makes of it."""
DISTANCE_DIGITS = 5
EXPECTED_MIN = 0.25
"""Fewer expected arrivals than that say nothing about dispersion."""
PER_SECOND_MAX = 1_000_000
"""More activations in a second are counted as so many: no input makes a number of the state infinite."""


class Demand(msgspec.Struct):
    """One class's demand, updated once a second. Rates are activations per second."""

    slow_per_s: float = 0.0
    fast_per_s: float = 0.0
    middle_per_s: float = 0.0
    dispersion: float = 1.0
    """Mean square of what the forecast of arrivals while a pod starts missed, over their variance if they came at random."""
    leaning: float = 0.0
    """By which part of the middle rate's distance from the slow one the forecast follows it, 0 to 1."""
    squares: float = SQUARES_FIRST
    products: float = 0.0
    """Means of that distance squared, and times what then came beyond the slow rate: both over the expected arrivals."""
    distances: list[float] = []
    """That distance in each of the last seconds, as many as a start takes; activations per second."""
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
        rate = self.slow_per_s + self.leaning * (self.middle_per_s - self.slow_per_s)
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
    middle = max(_weight(MIDDLE_LEADS * lead_s), 1.0 / (demand.seconds + 1.0))
    demand.middle_per_s += middle * (count - demand.middle_per_s)
    fade = 1.0 - _weight(REACHED_HALF_LIFE_S)
    demand.judged *= fade
    demand.waited *= fade


def _note_window(demand: Demand, count: int, lead_s: float) -> None:
    size = max(1, round(lead_s))
    window = demand.window
    window.append(count)
    distances = demand.distances
    if len(window) > size:
        del window[: len(window) - size]
    if len(window) == size:
        expected = max(demand.slow_per_s * size, EXPECTED_MIN)
        beyond = sum(window) - expected
        if len(distances) >= size:
            del distances[: len(distances) - size]
            _learn(demand, distances[0] * size, beyond, expected)
    distances.append(round(demand.middle_per_s - demand.slow_per_s, DISTANCE_DIGITS))


def _learn(demand: Demand, known: float, beyond: float, expected: float) -> None:
    """Learn how far what was known a start-up ago told what came since.

    Args:
        demand: to learn of.
        known: activations that the middle rate foretold beyond the slow one.
        beyond: those that came beyond it.
        expected: what the slow rate foretells.
    """
    weight = _weight(LEARNED_HALF_LIFE_S)
    demand.squares += weight * (known * known / expected - demand.squares)
    demand.products += weight * (known * beyond / expected - demand.products)
    demand.leaning = min(max(demand.products / max(demand.squares, 1e-9), 0.0), 1.0)
    missed = beyond - demand.leaning * known
    demand.dispersion += weight * (missed * missed / expected - demand.dispersion)


def _weight(half_life_s: float) -> float:
    """Return the weight of one second where what is older counts half after `half_life_s`."""
    return 1.0 - math.exp2(-1.0 / half_life_s)
