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
