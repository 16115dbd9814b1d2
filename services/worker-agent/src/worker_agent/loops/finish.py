"""The end of a task: its files are saved, its one result is committed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal, NamedTuple

import msgspec

from shared import logs, transitions
from shared.errors import LimitExceeded
from shared.messages import Status, TaskResult
from worker_agent.core.kept import Kept
from worker_agent.core.results import not_kept, without_content
from worker_agent.core.work import Work
from worker_agent.loops.commit import Committer
from worker_agent.loops.files import Files
from worker_agent.loops.note import Note, Notes
from worker_agent.ports import Held, Objects, Sandbox, Terminals, Truth, Voice

log = logs.get(__name__)

Then = Literal["keep", "close"]


class Ports(msgspec.Struct, frozen=True, kw_only=True):
    """What a task runner works with."""

    truth: Truth
    sandbox: Sandbox
    voice: Voice
    committer: Committer
    files: Files
    terminals: Terminals
    objects: Callable[[str], Objects]
    """Tenant -> its objects."""
    notes: Notes
    """Of spans."""


class Ended(NamedTuple):
    """A task that has its result, not committed yet."""

    result: TaskResult
    then: Then
    read_only: bool = False
    """It can have changed no file by itself."""
    rests: bool = False
    """The session is to be given back when it is committed, its files saved."""
    kept: Kept | None = None
    """What became of what it left behind; None: to be saved."""


async def finish(ports: Ports, held: Held, work: Work, ended: Ended, note: Note) -> Status | None:
    """Save what the task left behind, then commit its result and the record in one batch; return the status that landed.

    Raises:
        StaleEpoch: another owner has the session.
        OutcomeUnknown: the result could not be committed for too long.
    """
    files, result, kept = ports.files, ended.result, ended.kept
    if ended.then == "keep" and kept is None:
        kept = await files.save(held, work.task, read_only=ended.read_only)
        result = msgspec.structs.replace(result, unsaved=kept.error)
        if kept.effects == "saved":
            note.saved()
        if ended.rests and kept.effects == "unsaved":
            result = not_kept(result, kept.error)
    before = held.record
    record = transitions.complete(
        before, held.hold, inbox_seq=work.inbox_seq, then=ended.then, now_ms=_now_ms()
    )
    if kept is not None and ended.then == "keep":
        record = kept.applied(record, before)
    try:
        landed = await ports.committer.commit(held, record, result)
    except LimitExceeded as exc:
        # Whatever a task yields, it gets its one result: without what does not fit, and saying so.
        result = without_content(result, exc.info())
        landed = await ports.committer.commit(held, record, result)
    if landed:
        files.committed(held.record)
    elif work.inbox_seq is None:
        await _close_double(ports, held)
    else:
        files.spoil()
    await note.committed(result)
    return result.status if landed else None


async def _close_double(ports: Ports, held: Held) -> None:
    """End a session whose first task has a result that is not of this record: its id was published twice.

    One result for one id: it stands. Nothing can follow it here, and without an end the record would stay for ever.
    """
    log.warning("session.double", session_id=held.record.session, pool=held.record.pool)
    closed = transitions.complete(
        held.record, held.hold, inbox_seq=None, then="close", now_ms=_now_ms()
    )
    await ports.committer.write(held, closed)


def _now_ms() -> int:
    return int(time.time() * 1000)
