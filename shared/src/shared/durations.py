"""How long the parts of an attempt took, by its stamps. Pure."""

from __future__ import annotations

from typing import Literal

from shared.messages import Timing

Part = Literal["queue_wait", "claim", "restore", "start", "tti", "run", "commit"]


def durations_ms(timing: Timing, *, attempt: int, committed_ms: float) -> dict[Part, float]:
    """Return how long each part took, milliseconds; of a part whose ends are not both known there is nothing.

    The ends of some are stamps of two clocks: such a part may seem to have taken less than no time.

    Args:
        timing: of the attempt.
        attempt: its number; only a task's first one has waited for nothing but a worker.
        committed_ms: when its result was stored; wall clock, since 1970.
    """
    is_first, is_bound = attempt <= 1, timing.path == "bound"
    ready_ms = timing.restored_ms or timing.claimed_ms
    ends: dict[Part, tuple[float, float]] = {
        "queue_wait": (timing.accepted_ms if is_first else 0, timing.delivered_ms),
        "claim": (0 if is_bound else timing.delivered_ms, timing.claimed_ms),
        "restore": (timing.claimed_ms, timing.restored_ms),
        "start": (ready_ms, timing.started_ms),
        "tti": (timing.accepted_ms if is_first else 0, timing.started_ms),
        "run": (timing.started_ms, timing.finished_ms),
        "commit": (timing.finished_ms, committed_ms),
    }
    return {part: end - begin for part, (begin, end) in ends.items() if begin and end}
