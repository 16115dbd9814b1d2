"""From prices to a promise: which share of activations may wait, if idle pods and waits both cost money."""

from __future__ import annotations

import math

COLD_SHARE_MIN, COLD_SHARE_MAX = 0.0005, 0.9
HOUR_S = 3600.0
HALVINGS = 60


def cold_share_of(
    *, idle_cost_per_hour: float, cold_cost: float, rate_per_s: float, spread: float
) -> float:
    """Return the share of activations that may wait where one pod more costs as much as it saves.

    One pod more is idle with the probability that fewer activations come than there are pods, and saves a wait with the
    density of just as many: with the normal distribution φ(z) / Φ(z) = idle cost · spread / (rate · cold cost).

    Args:
        idle_cost_per_hour: money for one warm pod that waits for an hour.
        cold_cost: money for one activation that has to wait for a pod.
        rate_per_s: activations per second.
        spread: standard deviation of the activations while a pod starts.
    """
    idle_per_s = idle_cost_per_hour / HOUR_S
    saved_per_s = rate_per_s * cold_cost
    if saved_per_s <= 0.0:
        return COLD_SHARE_MAX
    hazard = idle_per_s * spread / saved_per_s
    low, high = -8.0, 8.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if _density(middle) / max(_below(middle), 1e-300) > hazard:
            low = middle
        else:
            high = middle
    return min(max(1.0 - _below(low), COLD_SHARE_MIN), COLD_SHARE_MAX)


def _density(z: float) -> float:
    return math.exp(-z * z / 2) / math.sqrt(2 * math.pi)


def _below(z: float) -> float:
    return math.erfc(-z / math.sqrt(2)) / 2
