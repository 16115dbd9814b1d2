"""How soon a slot's next pod is started: after starts that failed, and while others are claimed. Pure: times are arguments."""

from __future__ import annotations

from collections import Counter

BACK_OFF_S = (0.1, 5.0)
"""First and longest wait after a start that failed."""
STEADY_S = 5.0
"""A pod that ends sooner after its worker was first heard, without work, is a start that failed as well."""
CALM_MAX_S = 1.0
"""Longest time for which a pool's refill lets claims go first."""
COMING_S = 1.0
"""Claims are taken to go on until so long after the last one."""


class Pace:
    """Of one pool."""

    def __init__(self) -> None:
        """Nothing has failed, nothing was claimed."""
        self.back_off_max_s = BACK_OFF_S[1]
        """Longest wait of a slot after starts that failed."""
        self.calm_s = 0.0
        """Starts are costly, and take what claims need: none is begun until nothing was claimed for so long."""
        self.beside_claims: int | None = None
        """Pods in start at once while claims go on; None: as many as ever."""
        self._fails: Counter[str] = Counter()
        self._claimed_at = self._claims_since = float("-inf")

    def failed(self, slot: str) -> None:
        """A slot's pod came to nothing."""
        self._fails[slot] += 1

    def forgive(self, slot: str) -> None:
        """A slot's pod is of use."""
        self._fails.pop(slot, None)

    def back_off_s(self, slot: str) -> float:
        """Return how long a slot waits whose last starts failed."""
        fails = min(self._fails[slot], 16)
        return min(BACK_OFF_S[0] * 2 ** (fails - 1), self.back_off_max_s) if fails else 0.0

    def claimed(self, now: float) -> None:
        """A pod of the pool was claimed."""
        if now - self._claimed_at > self.calm_s:
            self._claims_since = now
        self._claimed_at = now

    def lets_claims_go_first(self, now: float, *, warm: int) -> bool:
        """Return whether pods are claimed just now, and some are left: then new ones wait for a moment."""
        return (
            warm > 0
            and now - self._claimed_at < self.calm_s
            and now - self._claims_since < CALM_MAX_S
        )

    def starting_max(self, now: float, most: int, *, warm: int, stock: int) -> int:
        """Return how many pods may be in start at once: few while claims go on, and enough warm ones are left for them."""
        goes_on = now - self._claimed_at < COMING_S and warm > stock // 4
        return min(most, self.beside_claims) if goes_on and self.beside_claims else most
