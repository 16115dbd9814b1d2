"""What a task's interruption cost, as its client is told. Pure."""

from __future__ import annotations

import json

from shared.heads import Head, is_interrupted
from shared.pools import OnInterrupt
from shared.record import Record
from shared.recovery import Recovery

SECOND_MS = 1000


def recovery_of(
    record: Record, task: str, rule: OnInterrupt, head: Head, times_ms: tuple[float, float]
) -> Recovery | None:
    """Return how a task goes on after its worker was lost; None: it was not interrupted.

    Args:
        record: as it was claimed.
        task: the task in hand.
        rule: what becomes of it.
        head: what its workspace begins with.
        times_ms: wall clock when the restore began, and when the task goes on.
    """
    if not is_interrupted(record, task):
        return None
    began_ms, now_ms = times_ms
    last = record.interruptions[-1]
    alive_ms = last.revoked_ms - (last.silent_ms or 0)
    saved_ms = 0 if head.snapshot is None else head.snapshot.at_ms
    latest = record.latest if head.which == "latest" else None
    # Saved once all processes of the dead pod were gone: nothing of what they did is missing.
    rescued = latest is not None and latest.epoch > last.epoch
    since_ms = last.since_ms if latest is None else max(last.since_ms, saved_ms)
    return Recovery(
        cause=last.cause,
        rule=rule,
        snapshot_ms=saved_ms,
        work_lost_s=0.0 if rescued else _seconds(alive_ms - since_ms),
        # What the worker said is of its last look: that there was nothing then says nothing of what came after.
        work_lost_bytes=0 if rescued else last.unsaved_bytes or None,
        detect_s=None if last.silent_ms is None else _seconds(last.silent_ms),
        restore_s=_seconds(now_ms - began_ms),
        total_s=_seconds(now_ms - alive_ms),
    )


def interrupted_env(record: Record, recovery: Recovery | None) -> dict[str, str]:
    """Return what a task that goes on in the middle reads of that in its environment."""
    if recovery is None or recovery.rule != "resume":
        return {}
    said = {
        "cause": recovery.cause,
        "attempt": max(record.attempt - 1, 1),
        "seconds": recovery.work_lost_s,
    }
    return {"AGENT_SANDBOX_INTERRUPTED": json.dumps(said)}


def _seconds(milliseconds: float) -> float:
    return round(max(0.0, milliseconds) / SECOND_MS, 3)
