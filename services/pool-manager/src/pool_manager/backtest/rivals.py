"""What others do, in their own words and defaults: policies to compare with."""

from __future__ import annotations

import math
from collections import deque

from pool_manager.core.policy import Seen, Target


class KedaLike:
    """KEDA on a JetStream consumer, with the autoscaler's own rules behind it.

    Lag is what waits and what is in hand (`num_pending` + `num_ack_pending`); desired pods = ceil(lag / threshold), looked
    at every 15 s, within a tenth left alone, at most doubled, and lowered to the highest of the last 300 s.
    """

    on_every_event = False

    def __init__(self, lag_threshold: float, *, every_s: int = 15, hold_s: int = 300) -> None:
        """Spare pods are there only where the threshold is below 1."""
        self._threshold = lag_threshold
        self._every_s = every_s
        self._hold_s = hold_s
        self._second = 0
        self._desired = 0.0
        self._wanted: deque[tuple[int, float]] = deque()

    def activated(self, klass: str, *, waited: bool) -> None:
        """It polls."""

    def tick(self, seen: Seen) -> Target | None:
        """Decide every so often."""
        self._second += 1
        if self._second % self._every_s:
            return None
        ratio = (seen.bound + seen.waiting) / self._threshold
        now = max(self._desired, 1.0)
        want = self._desired if abs(ratio / now - 1) <= 0.1 else math.ceil(ratio)
        want = min(want, max(2 * now, now + 4))
        self._wanted.append((self._second, math.ceil(ratio)))
        while self._wanted[0][0] <= self._second - self._hold_s:
            self._wanted.popleft()
        if want < self._desired:
            want = min(self._desired, max(value for _, value in self._wanted))
        self._desired = want
        return Target(max(math.ceil(want) - seen.bound, 0) - seen.waiting)


class KnativeLike:
    """Knative's autoscaler: desired pods = concurrency / target utilisation, over 60 s, over 6 s in panic."""

    on_every_event = False
    EVERY_S = 2
    STABLE_S, PANIC_S = 60, 6
    PANIC_FACTOR = 2.0

    def __init__(self, utilisation: float) -> None:
        """Its default is 0.7."""
        self._utilisation = utilisation
        self._second = 0
        self._panic_until = 0
        self._desired = 0
        self._busy: deque[int] = deque(maxlen=self.STABLE_S)

    def activated(self, klass: str, *, waited: bool) -> None:
        """It samples."""

    def tick(self, seen: Seen) -> Target | None:
        """Decide every two seconds."""
        self._second += 1
        self._busy.append(seen.bound + seen.waiting)
        if self._second % self.EVERY_S:
            return None
        stable = self._wanted(self.STABLE_S)
        panic = self._wanted(self.PANIC_S)
        ready = max(1, seen.bound + seen.ready)
        if panic / ready >= self.PANIC_FACTOR:
            self._panic_until = self._second + self.STABLE_S
        if self._second < self._panic_until:
            self._desired = max(self._desired, stable, panic)
        else:
            self._desired = max(stable, ready // 2)
        return Target(max(self._desired - seen.bound, 0) - seen.waiting)

    def _wanted(self, seconds: int) -> int:
        samples = list(self._busy)[-seconds:]
        return math.ceil(sum(samples) / len(samples) / self._utilisation)
