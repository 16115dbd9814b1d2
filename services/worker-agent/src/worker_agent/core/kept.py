"""With which files a task begins, and what becomes of what it leaves behind. Pure."""

from __future__ import annotations

from typing import Literal

import msgspec

from shared import heads
from shared.errors import ErrorInfo
from shared.record import Record
from shared.recovery import Recovery
from shared.workspace import SnapshotRef
from worker_agent.core.recovery import recovery_of

LATE_AFTER = 3
"""A snapshot in the middle of a task is late when so many times the pause between two of them has passed."""


class Beginning(msgspec.Struct, frozen=True, kw_only=True):
    """With what a task begins."""

    recovery: Recovery | None = None
    restored_ms: float = 0
    """Wall clock at which its workspace was restored; 0: there was nothing to restore."""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What became of what a task left behind."""

    effects: Literal["saved", "none", "unsaved"]
    snapshot: SnapshotRef | None = None
    error: ErrorInfo | None = None
    """Why it is not saved."""

    def applied(self, done: Record, before: Record) -> Record:
        """Return the record that `complete` made of `before`, its heads where they belong."""
        match self.effects:
            case "saved":
                return heads.saved(done, self.snapshot)
            case "none":
                return heads.untouched(done, before)
            case "unsaved":
                return done


def left_by_the_interrupted(
    record: Record, task: str, now_ms: float
) -> tuple[Kept, Recovery | None]:
    """Return what becomes of the files of a task that was interrupted and is not run again, and what that cost."""
    head = heads.head_for(record, task, "fail")
    recovery = recovery_of(record, task, "fail", head, (now_ms, now_ms))
    if head.which == "latest":
        return Kept(effects="saved", snapshot=head.snapshot), recovery
    return Kept(effects="none"), recovery


def unharmed(recovery: Recovery | None) -> Recovery | None:
    """Return the same of files that lie on a volume: nothing of them was rolled back."""
    if recovery is None:
        return None
    return msgspec.structs.replace(recovery, work_lost_s=0.0, work_lost_bytes=0)


def late_since(safe_ms: int, every_s: float, now_ms: int) -> tuple[str, int]:
    """Return that a snapshot in the middle of a task is late, and since when; empty and 0: it is not.

    Args:
        safe_ms: when the newest one was taken, or the task began, wall clock.
        every_s: pause between two of them, seconds.
        now_ms: wall clock.
    """
    bound_s = every_s * LATE_AFTER
    late_ms = safe_ms + round(bound_s * 1000)
    if now_ms <= late_ms:
        return "", 0
    return f"its newest snapshot is older than {bound_s:g} s: the next one is not done", late_ms
