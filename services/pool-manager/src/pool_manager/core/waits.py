"""How long an activation that comes now is likely to wait for a worker: an estimate for people, from what is seen. Pure."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping

import msgspec

CLAIMS_KEPT = 64
LATELY_S = 60.0
"""Claims before that say nothing of how fast a pool works now."""
STARTS_REMEMBERED = 100


class Flow:
    """How fast a pool's pods start, and how often one is claimed."""

    def __init__(self) -> None:
        """Nothing was seen."""
        self.start_s: float | None = None
        """Mean of the last starts; None: none was seen."""
        self._starts = 0
        self._claims: deque[float] = deque(maxlen=CLAIMS_KEPT)

    def started(self, took_s: float) -> None:
        """A pod became warm."""
        self._starts = min(self._starts + 1, STARTS_REMEMBERED)
        before = self.start_s or 0.0
        self.start_s = before + (took_s - before) / self._starts

    def claimed(self, now: float) -> None:
        """A pod was claimed."""
        self._claims.append(now)

    def claims_per_s(self, now: float) -> float:
        """Return how many pods were claimed each second lately; 0: too few to tell."""
        lately = [at for at in self._claims if now - at <= LATELY_S]
        if len(lately) < 2:
            return 0.0
        return (len(lately) - 1) / max(now - lately[0], 1e-3)


def ahead_of_interactive(waiting: Mapping[str, int]) -> int:
    """Return how many of the messages that wait, by class, are served before one more of class `interactive`.

    A backlog of batch tasks is not: of ten pods it gets one at most.
    """
    return waiting.get("recovery", 0) + waiting.get("interactive", 0)


class Line(msgspec.Struct, frozen=True):
    """What stands between an activation that comes now and a pod."""

    ahead: int
    """Messages that wait already, and are served before it."""
    warm: int
    starting: int
    room: int
    """Pods that the pool may still have, beside those that there are."""
    starting_max: int
    is_held: bool = False
    """Something stands in the way of pods that are asked for: nobody knows for how long."""


def wait_s(line: Line, flow: Flow, now: float) -> float | None:
    """Return about how long the next activation waits for a pod, seconds; None: nothing was seen that tells it.

    Pods that are starting have half of their start behind them, on average. Where the pool may have no more pods, each that
    waits needs one session to end: that goes as fast as claims went lately.
    """
    number = line.ahead - line.warm + 1  # of the pods to come it is this one
    if number <= 0:
        return 0.0
    if line.is_held and number <= line.starting + line.room:
        return None
    if number <= line.starting:
        return None if flow.start_s is None else flow.start_s * number / (line.starting + 1)
    if number <= line.starting + line.room:
        rounds = math.ceil((number - line.starting) / max(line.starting_max, 1))
        return None if flow.start_s is None else flow.start_s * rounds
    rate = flow.claims_per_s(now)
    return None if rate == 0 else number / rate
