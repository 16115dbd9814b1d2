"""How a store is, told from what its calls came to; and how long the next try waits. Pure."""

from __future__ import annotations

import msgspec

WAIT_MIN_S, WAIT_MAX_S = 0.1, 5.0
"""Between two tries: doubled from the first to the second."""


class StoreState(msgspec.Struct, frozen=True, kw_only=True):
    """How a store is."""

    up: bool = True
    reason: str = ""
    """Why it is not: what the last call that failed said."""
    since_s: float = 0.0
    """Monotonic clock, seconds: since when it is so."""


def after_success(state: StoreState, now: float) -> StoreState:
    """Return the state after a call was answered, be it with a definite no."""
    return state if state.up else StoreState(since_s=now)


def after_failure(state: StoreState, reason: str, now: float) -> StoreState:
    """Return the state after a call that got no answer, or was refused for want of room."""
    return StoreState(up=False, reason=reason, since_s=now if state.up else state.since_s)


def wait_s(tries: int, jitter: float) -> float:
    """Return how long to wait after so many tries (1, 2, …), seconds; `jitter` from 0 to 1."""
    doubled: float = min(WAIT_MAX_S, WAIT_MIN_S * 2 ** min(tries - 1, 16))
    return doubled * (0.5 + jitter / 2)
