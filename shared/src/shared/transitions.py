"""How a session's record may change: the rules of ownership, and nothing else.

Each function takes the record as it was read and returns the one to write, by compare-and-set under the sequence that was
read; what the rules forbid raises. Nothing here knows time, NATS or randomness: `now_ms` is an argument.

    (none) --create--> running --complete--> running | closed;  (none) --forks.fork--> forking --forks.forked--> idle
    queued --claim--> running --release--> idle --wake--> queued;  idle --take_back--> running
    running | rescuing --revoke--> queued (epoch + 1) | poison;  running --revoke--> rescuing (epoch + 1) --rescued--> queued
    running --postpone--> waiting --wake--> queued;  queued --wake--> queued, in a more urgent lane
    any live state that nobody runs --end--> cancelled | expired | rejected | poison

The first task's payload lies beside the record, later ones in the inbox, done up to `position`. Heads: `shared.heads`.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec.structs import asdict, replace

from shared import limits
from shared.classes import is_more_urgent
from shared.errors import Conflict
from shared.heads import give_up, newest, saved
from shared.messages import Interruption
from shared.record import (
    Death,
    EndState,
    Hold,
    Origin,
    Record,
    Rescue,
    State,
    check_mine,
    check_state,
)
from shared.workspace import SnapshotRef

_FORGIVEN: dict[str, Any] = {"deaths": 0, "death_task": "", "interruptions": (), "latest": None}
"""Progress: what befell one task is not held against the next, nor are its files in mid-task of any use."""


def unborn(origin: Origin, state: State) -> Record:
    """Return the record of a session that nobody owned yet."""
    return Record(**asdict(origin), state=state, client_lane=origin.lane, keep=False)


def create(origin: Origin, *, owner: str, node: str, now_ms: int) -> Record:
    """Return the record of a session that its puller creates and owns at once (expected sequence 0).

    `keep` is unknown until the payload is read: after the create, so that one that kills its reader counts as a death.
    """
    return replace(
        unborn(origin, "running"), epoch=1, owner=owner, node=node, claimed_ms=now_ms, attempt=1
    )


def claim(record: Record, *, owner: str, node: str, now_ms: int) -> Record:
    """Return the record with a new owner under the next epoch.

    Raises:
        Conflict: nobody may claim it now (owned, idle or ended).
    """
    check_state(record, "claim", "queued")
    return replace(
        record,
        state="running",
        owner=owner,
        node=node,
        epoch=record.epoch + 1,
        claimed_ms=now_ms,
        attempt=record.attempt + 1,
    )


def complete(
    record: Record,
    hold: Hold,
    *,
    inbox_seq: int | None,
    then: Literal["keep", "close"],
    now_ms: int,
) -> Record:
    """Return the record that is committed in one batch with a task's result.

    What the task did is in the pod alone, as far as this says: its owner goes on with `heads.saved` or `heads.untouched`.

    Args:
        record: as read or last written by the owner.
        hold: who commits, under which epoch.
        inbox_seq: stream sequence of the inbox entry; None for the session's first task.
        then: keep the session, or close it with this task.
        now_ms: wall clock, milliseconds since 1970.

    Raises:
        StaleEpoch: somebody else owns the session now.
        Conflict: the task has its result already, or its turn has not come.
    """
    check_mine(record, hold, "complete")
    if (inbox_seq is None) == record.first_done:
        which = "a result already" if record.first_done else "no result yet"
        raise Conflict(f"session {record.session}: its first task has {which}")
    if inbox_seq is not None and inbox_seq <= record.position:
        raise Conflict(
            f"session {record.session}: entry {inbox_seq} is not beyond {record.position}"
        )
    done = replace(
        record,
        first_done=True,
        keep=record.keep or then == "keep",
        position=max(record.position, inbox_seq or 0),
        attempt=1,
        lost=None,
        tasks_done=record.tasks_done + 1,
        last_done_ms=now_ms,
        **_FORGIVEN,
    )
    if then == "keep":
        return replace(done, checkpoint_stale_ms=record.checkpoint_stale_ms or now_ms)
    return replace(
        done, state="closed", owner=None, node=None, ended_ms=now_ms, end_reason="closed"
    )


def skip(record: Record, hold: Hold, *, position: int) -> Record:
    """Return the record with `position` moved past entries that the owner has seen to have a result.

    Raises:
        StaleEpoch: somebody else owns the session now.
    """
    check_mine(record, hold, "skip")
    if position <= record.position:
        return record
    return replace(record, position=position, attempt=1, **_FORGIVEN)


def release(
    record: Record, hold: Hold, *, position: int, now_ms: int, cause: str = "released"
) -> Record:
    """Return the record of a session given up by its owner: idle, its pod about to end. So does a session hibernate.

    The owner reads the inbox once more *after* this write (`take_back`), so that no wake-up is lost.

    Raises:
        StaleEpoch: somebody else owns the session now.
    """
    kept = skip(record, hold, position=position)
    return give_up(
        replace(kept, state="idle", owner=None, node=None, attempt=0, lane=record.client_lane),
        cause=cause,
        now_ms=now_ms,
    )


def take_back(released: Record, before: Record) -> Record:
    """Return the record as its owner held it `before` the release: same owner, same epoch, workspace intact.

    Written on the sequence that the release wrote, so it fails if anybody else moved.

    Raises:
        Conflict: the session is not idle under the owner's epoch.
    """
    check_state(released, "take back", "idle")
    if released.epoch != before.epoch:
        raise Conflict(f"session {before.session}: epoch {before.epoch} is now {released.epoch}")
    return skip(before, Hold(before.owner or "", before.epoch), position=released.position)


def wake(record: Record, *, lane: str) -> Record:
    """Return the record of a session that wants a worker again, or, queued, in a more urgent lane: it only rises.

    Raises:
        Conflict: it is owned or ended, or waits as urgently already.
    """
    if record.state == "queued" and is_more_urgent(lane, record.lane):
        return replace(record, lane=lane)
    check_state(record, "wake", "idle", "waiting")
    return replace(record, state="queued", lane=lane, wake_at_ms=0)


def postpone(record: Record, hold: Hold, *, until_ms: int, now_ms: int) -> Record:
    """Return the record of a task that is tried again later. The workspace goes with the pod.

    Raises:
        StaleEpoch: somebody else owns the session now.
    """
    check_mine(record, hold, "postpone")
    waiting = replace(record, state="waiting", owner=None, node=None, wake_at_ms=until_ms)
    return give_up(waiting, cause="postponed", now_ms=now_ms)


def revoke(record: Record, *, death: Death, now_ms: int, rescue: Rescue | None = None) -> Record:
    """Return the record after its owner was given up: from this write on the zombie's writes fail.

    The epoch grows, the session waits in `recovery`. After `limits.DEATHS_MAX` deaths of the worker process in one task
    it is poison; the caller writes the task's result in the same batch. In a rescue no task runs.

    Args:
        record: as read.
        death: why.
        now_ms: wall clock, milliseconds since 1970.
        rescue: who saves the workspace of the pod that died before anybody may claim the session; None: nobody.

    Raises:
        Conflict: nobody owns it, or a rescue is to be rescued.
    """
    check_state(record, "revoke", "running", *([] if rescue else ["rescuing"]))
    after = _interrupted(record, death, now_ms) if record.state == "running" else record
    if rescue is None:
        after = give_up(after, cause=death.cause, now_ms=now_ms)
    revoked = replace(
        after,
        state="queued",
        owner=None,
        node=None,
        epoch=record.epoch + 1,
        lane="recovery",
        rescue_until_ms=0,
        files_in_use=record.files_in_use or death.may_write,
    )
    if revoked.deaths >= limits.DEATHS_MAX and record.state == "running":
        return replace(revoked, state="poison", ended_ms=now_ms, end_reason="deaths")
    if rescue is None:
        return revoked
    return replace(
        revoked,
        state="rescuing",
        owner=rescue.owner,
        node=rescue.node,
        claimed_ms=now_ms,
        rescue_until_ms=rescue.until_ms,
        rescue_pod=record.owner or "",
    )


def _interrupted(record: Record, death: Death, now_ms: int) -> Record:
    """Count what befell the task in hand."""
    if not death.in_task:
        return replace(record, **_FORGIVEN)
    other = death.task and record.death_task not in ("", death.task)
    before = replace(record, **_FORGIVEN) if other else record
    interruption = Interruption(
        cause=death.cause,
        epoch=record.epoch,
        worker=record.owner or "",
        revoked_ms=now_ms,
        silent_ms=death.silent_ms,
        unsaved_bytes=death.unsaved_bytes,
        since_ms=max(record.claimed_ms, record.last_done_ms),
    )
    return replace(
        before,
        deaths=before.deaths + death.process_died,
        death_task=death.task or record.death_task,
        interruptions=(*before.interruptions, interruption)[-limits.INTERRUPTIONS_KEPT :],
    )


def rescued(record: Record, hold: Hold, *, snapshot: SnapshotRef | None, whole: bool) -> Record:
    """Return the record after the rescue: queued again, with what was saved of the dead pod's workspace.

    Args:
        record: as the checkpointer read or wrote it.
        hold: the checkpointer's.
        snapshot: what was saved; None: it was empty, and nothing was ever saved.
        whole: it is a boundary: nothing in it is of a task without a result.

    Raises:
        StaleEpoch: the rescue took too long and was revoked.
    """
    check_mine(record, hold, "rescued", "rescuing")
    queued = replace(record, state="queued", owner=None, node=None, rescue_until_ms=0)
    if whole:  # its deaths count yet: the body of a task may kill who reads it
        return saved(replace(queued, interruptions=()), snapshot)
    return newest(queued, snapshot, record.death_task) if snapshot else queued


def end(record: Record, *, state: EndState, reason: str, now_ms: int) -> Record:
    """Return the record of a session ended from outside, written in one batch with its task's result.

    What a worker runs is ended by asking its owner, never past it.

    Raises:
        Conflict: it has ended already, or a worker runs it.
    """
    check_state(record, state, "queued", "waiting", "rescuing", "forking", "idle")
    return replace(
        record,
        state=state,
        owner=None,
        node=None,
        epoch=record.epoch + 1,
        ended_ms=now_ms,
        end_reason=reason,
    )


def ended_unborn(origin: Origin, *, state: EndState, reason: str, now_ms: int) -> Record:
    """Return the record of a session that ends before anybody created it (expected sequence 0)."""
    return replace(unborn(origin, state), ended_ms=now_ms, end_reason=reason)
