"""The two heads in a session's record, `boundary` and `latest`: how they move, and which one a task begins with.

`boundary` moves with a task's result, in one write. `latest` is written in the middle of a task and belongs to that task
alone; progress drops it. What completed tasks did that no snapshot holds is counted from `checkpoint_stale_ms` on, and
whoever gives the pod up says that it is gone. Pure, like `shared.transitions`.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec.structs import replace

from shared.messages import WorkspaceLost
from shared.pools import OnInterrupt
from shared.record import Hold, Record, check_mine
from shared.workspace import Latest, SnapshotRef

Which = Literal["empty", "boundary", "latest"]

OUT_OF_MEMORY = "out_of_memory"
"""Cause of an interruption: a task took its pod's memory, and its worker died with it. It is not run again."""


class Head(msgspec.Struct, frozen=True):
    """What a workspace is filled with before a task runs."""

    which: Which
    snapshot: SnapshotRef | None = None


def saved(record: Record, snapshot: SnapshotRef | None) -> Record:
    """Return the record with a new boundary: everything that completed tasks did is in it.

    Args:
        record: as it is written next, by its owner, between tasks: with a result, or with the release.
        snapshot: what was saved; None: the workspace is empty, and nothing was ever saved.
    """
    return replace(
        record,
        boundary=record.boundary if snapshot is None else snapshot,
        latest=None,
        checkpoint_stale_ms=0,
    )


def untouched(record: Record, before: Record) -> Record:
    """Return the record that `complete` made of `before`, for a task that was not run: it left nothing to save."""
    return replace(record, checkpoint_stale_ms=before.checkpoint_stale_ms)


def checkpoint(record: Record, hold: Hold, *, snapshot: SnapshotRef, task: str) -> Record:
    """Return the record after a checkpoint in the middle of a task.

    Raises:
        StaleEpoch: somebody else owns the session now.
        Conflict: no worker owns it.
    """
    check_mine(record, hold, "checkpoint")
    return newest(record, snapshot, task)


def newest(record: Record, snapshot: SnapshotRef, task: str) -> Record:
    """Return the record with a snapshot from the middle of a task as its newest one."""
    latest = Latest(snapshot=snapshot, task=task, attempt=record.attempt, epoch=record.epoch)
    return replace(record, latest=latest)


def lose_unsaved(record: Record, *, cause: str, now_ms: int) -> Record:
    """Say that what no snapshot holds is gone, if there was anything.

    A loss that was not told yet stays what it is: since then nothing was completed.
    """
    if not record.checkpoint_stale_ms:
        return record
    return _lose(record, cause=cause, now_ms=now_ms, back_to=record.boundary)


def give_up(record: Record, *, cause: str, now_ms: int) -> Record:
    """Return the record of a session whose pod goes. A snapshot from the middle of a task may hold what the boundary does
    not: then whoever goes on from the boundary all the same says what is gone (`lose_unsaved`).
    """
    return record if record.latest else lose_unsaved(record, cause=cause, now_ms=now_ms)


def lose_snapshot(record: Record, hold: Hold, *, which: Which, cause: str, now_ms: int) -> Record:
    """Return the record of a session one of whose heads can't be restored any more.

    Without `latest` its task begins with what was before it; without `boundary` the session goes on empty, and says so.

    Raises:
        StaleEpoch: somebody else owns the session now.
        Conflict: no worker owns it.
    """
    check_mine(record, hold, "lose a snapshot")
    if which == "latest":
        return replace(record, latest=None)
    empty = replace(record, boundary=None, latest=None)
    return _lose(empty, cause=cause, now_ms=now_ms, back_to=None)


def _lose(record: Record, *, cause: str, now_ms: int, back_to: SnapshotRef | None) -> Record:
    loss = WorkspaceLost(
        cause=cause,
        epoch=record.epoch,
        at_ms=now_ms,
        back_to_ms=0 if back_to is None else back_to.at_ms,
    )
    return replace(
        record, lost=loss, last_loss=loss, losses=record.losses + 1, checkpoint_stale_ms=0
    )


def take_files(record: Record, hold: Hold) -> Record:
    """Return the record of an owner who has waited for the end of whoever wrote the files before.

    Raises:
        StaleEpoch: somebody else owns the session now.
    """
    check_mine(record, hold, "take its files")
    return replace(record, files_in_use=False)


def is_interrupted(record: Record, task: str) -> bool:
    """Return whether a task was in hand when the worker died: only that one was interrupted."""
    return bool(record.interruptions) and record.death_task in ("", task)


def head_for(record: Record, task: str, rule: OnInterrupt) -> Head:
    """Return what a task begins with, on a worker that has restored nothing yet.

    Args:
        record: as its owner has it.
        task: the first one without a result.
        rule: what becomes of the task if it was interrupted.
    """
    latest = record.latest
    if latest is not None and latest.task in ("", task) and rule != "rerun":
        return Head("latest", latest.snapshot)
    return Head("empty" if record.boundary is None else "boundary", record.boundary)
