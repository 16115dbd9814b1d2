"""What a cancel has to do, from what the leader says: the record, and whether the task has a result."""

from __future__ import annotations

from typing import Literal

import msgspec

from pool_manager.core.ends import CANCELLED, CANCELLED_BESIDE, SESSION_ENDED, End
from shared.messages import TaskResult
from shared.record import ENDED, Origin, Record
from shared.transitions import end, ended_unborn


class Tell(msgspec.Struct, frozen=True):
    """Nothing is left to cancel."""

    outcome: Literal["cancelled", "finished", "unknown"]
    result: TaskResult | None = None


class AskOwner(msgspec.Struct, frozen=True):
    """A worker has the session: it ends what it runs, and answers after its commit."""

    worker: str
    epoch: int


class EndSession(msgspec.Struct, frozen=True):
    """Nobody runs the session's first task: record and result in one batch."""

    record: Record


class EndTask(msgspec.Struct, frozen=True):
    """Nobody runs this inbox task: its result alone. The session goes on, and whoever owns it passes the entry."""

    end: End


Step = Tell | AskOwner | EndSession | EndTask


class Target(msgspec.Struct, frozen=True):
    """What is to be cancelled."""

    tenant: str
    session: str
    task: str
    pool: str | None
    """Where it will be published, if it is not yet."""

    @property
    def is_first(self) -> bool:
        """Whether it is the session's first task."""
        return self.task == self.session


def next_step(
    target: Target,
    record: Record | None,
    result: TaskResult | None,
    *,
    not_by: Record | None,
    now_ms: int,
) -> Step:
    """Return what to do next.

    Args:
        target: what is to be cancelled.
        record: as the leader has it.
        result: the task's result, as the leader has it.
        not_by: the record whose owner said that it does not run the task; None: no owner was asked.
        now_ms: wall clock, milliseconds since 1970.
    """
    if result is not None:
        return Tell("cancelled" if result.status == "cancelled" else "finished", result)
    if record is not None and record.state in ENDED:
        # First tasks end with their record; a result that is missing was kept for its time and is gone.
        return Tell("finished") if target.is_first else EndTask(SESSION_ENDED)
    asked = not_by is not None and record is not None and _same_owner(not_by, record)
    if record is not None and record.state == "running" and not asked:
        return AskOwner(record.owner or "", record.epoch)
    if not target.is_first:
        beside = record is not None and record.state == "running"
        return EndTask(CANCELLED_BESIDE if beside else CANCELLED)
    if record is None:
        return _unborn(target, now_ms)
    if record.first_done:
        return Tell("finished")
    if record.state == "running":
        return AskOwner(record.owner or "", record.epoch)  # it is about to run it, or was
    ended = end(record, state="cancelled", reason="requested", now_ms=now_ms)
    return EndSession(ended)


def _same_owner(one: Record, other: Record) -> bool:
    return one.owner == other.owner and one.epoch == other.epoch


def _unborn(target: Target, now_ms: int) -> Step:
    if target.pool is None:
        return Tell("unknown")
    origin = Origin(
        session=target.session,
        tenant=target.tenant,
        pool=target.pool,
        lane="interactive",
        accepted_ms=now_ms,
    )
    return EndSession(ended_unborn(origin, state="cancelled", reason="requested", now_ms=now_ms))
