"""From a task's stamps to its time to interactive. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from shared.messages import StartPath, TaskResult, Timing
from shared.rest import MeasuredBy, Tti, TtiRow


def make_tti(
    timing: Timing | None, tti_ms: float, measured_by: MeasuredBy = "caller"
) -> Tti | None:
    """Return a task's time to interactive; None where its worker did not say how it came to it.

    The parts are differences of stamps of the worker's clock, the first one against the servers': a clock that is off or
    was set meanwhile shows as a part that is too small or too large, never as one below nothing or beyond the whole.

    Args:
        timing: what the event `started` says of the first start.
        tti_ms: from the call to that event, milliseconds, by one clock or by the servers'.
        measured_by: whose clock that was.
    """
    if timing is None or timing.path is None or not timing.started_ms:
        return None
    left_ms = whole_ms = max(0.0, tti_ms)
    parts_ms = []
    # From the one whose ends lie closest to each other.
    for begin_ms, end_ms in (
        (timing.claimed_ms, timing.started_ms),
        (timing.delivered_ms, timing.claimed_ms),
        (timing.accepted_ms, timing.delivered_ms),
    ):
        parts_ms.append(round(min(max(0.0, end_ms - begin_ms), left_ms), 3))
        left_ms = max(0.0, left_ms - parts_ms[-1])
    start_ms, claim_ms, queue_wait_ms = parts_ms
    return Tti(
        tti_ms=round(whole_ms, 3),
        path=timing.path,
        queue_wait_ms=queue_wait_ms,
        claim_ms=claim_ms,
        start_ms=start_ms,
        measured_by=measured_by,
    )


def tti_by_servers(timing: Timing | None, started_stored_ms: int) -> Tti | None:
    """Return a task's time to interactive where nobody who heard it start is left.

    Args:
        timing: as above.
        started_stored_ms: when the event `started` was stored, by the servers' clock, as `Timing.accepted_ms` is.
    """
    if timing is None or not timing.accepted_ms:
        return None
    return make_tti(timing, started_stored_ms - timing.accepted_ms, "servers")


def tti_by_worker(stored: TaskResult) -> Tti | None:
    """Return a task's time to interactive where no event of its start is left either; None: only its first start counts."""
    timing = stored.timing
    if stored.attempt != 1 or stored.interruptions or not timing.accepted_ms:
        return None
    return make_tti(timing, timing.started_ms - timing.accepted_ms, "worker")


def summarize(pool: str, path: StartPath, values_ms: Sequence[float]) -> TtiRow:
    """Return what measured times of one pool and path say; each figure is one of them.

    Args:
        pool: where they were measured.
        path: how the tasks came to their workers.
        values_ms: at least one, in the order in which they were measured.
    """
    ordered = sorted(values_ms)
    p50, p90, p99 = (
        ordered[max(0, math.ceil(share * len(ordered)) - 1)] for share in (0.5, 0.9, 0.99)
    )
    return TtiRow(
        pool=pool,
        path=path,
        count=len(ordered),
        last_ms=values_ms[-1],
        p50_ms=p50,
        p90_ms=p90,
        p99_ms=p99,
        max_ms=ordered[-1],
    )
