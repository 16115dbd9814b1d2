"""What a client is told when a session goes on after its worker was lost."""

from __future__ import annotations

import msgspec

from shared.pools import OnInterrupt


class Recovery(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a task that was interrupted goes on, and what that cost. Seconds are of the machines' wall clocks."""

    cause: str
    """Why the worker was given up, as in the newest of `interruptions`."""
    rule: OnInterrupt
    """By which it goes on: `rerun` from the files before the task, `resume` from the newest ones, `fail`: not at all."""
    snapshot_ms: int = 0
    """When the files were saved that it goes on with, milliseconds since 1970; 0: there was nothing to restore."""
    work_lost_s: float = 0
    """How long the lost attempt had run beyond what was saved: that is done again, or gone."""
    work_lost_bytes: int | None = None
    """Size of the files whose newest changes were rolled back; 0: none were. None: not known."""
    detect_s: float | None = None
    """Last sign of life of the lost worker -> it was given up."""
    restore_s: float = 0
    """Time to restore the workspace."""
    total_s: float | None = None
    """Last sign of life of the lost worker -> its successor goes on."""
