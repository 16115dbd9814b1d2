"""How long user code may run on a proof that its session is still its worker's, and how long a successor waits. Pure.

The proof is a write to the session's record. It was under way when the lease began; so a revocation that the servers stored
after it came later than the lease's beginning, and whoever claims the session then waits for longer than the lease lasts.
"""

from __future__ import annotations

import msgspec

from shared.volumes import AFTER_FENCE_S

EVERY_S = 1.0
"""Between two proofs: one write of the record each."""
AGAIN_S = 0.2
"""After one that failed."""
SPARE_S = 0.3
"""Before its end the sidecar itself lets everything stand still: then nothing of the sidecar's own is on its way."""


class LeaseTimes(msgspec.Struct, frozen=True):
    """By T_fence."""

    fence_s: float

    @property
    def lasts_s(self) -> float:
        """Return for how long user code runs on one proof, from the moment before that was asked for."""
        return self.fence_s - AFTER_FENCE_S

    @property
    def settles_s(self) -> float:
        """Return for how long whoever claimed a session waits for code of a former owner whose end nobody saw."""
        return self.fence_s + AFTER_FENCE_S


def try_s(left_s: float, *, still: bool) -> float:
    """Return how many seconds one try for a proof may last, `left_s` before the lease's end.

    While code runs, none goes on into the spare time; once everything stands still, nothing hurries.
    """
    return EVERY_S / 2 if still else max(left_s - SPARE_S, 0.0)


def must_stand_still(left_s: float, *, for_s: float = 0.0) -> bool:
    """Return whether the spare time begins before anything else is done again, `for_s` from now."""
    return left_s - for_s <= SPARE_S
