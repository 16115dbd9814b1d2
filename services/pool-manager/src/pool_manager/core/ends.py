"""The terminal results that pool-managers write: for tasks that no worker ends."""

from __future__ import annotations

import msgspec

from shared.errors import ErrorInfo
from shared.messages import Reason, Status, TaskResult, Timing
from shared.record import EndState, Record

_WORDS: dict[str, str] = {
    "requested": "cancelled on request",
    "deadline": "its deadline passed before a worker ran it",
    "deaths": "it ended its worker's process too often",
    "session_ended": "its session has ended",
    "unknown_session": "no session of this id exists",
    "invalid": "it cannot be read",
}


class End(msgspec.Struct, frozen=True):
    """How a task ends without a worker."""

    status: Status
    reason: Reason
    perhaps_begun: bool = False
    """A worker that goes on by itself may have begun it."""
    words: str = ""
    """Why, where the reason alone does not say it."""

    @property
    def state(self) -> EndState:
        """The state of a session that ends with it."""
        match self.status:
            case "cancelled" | "expired" | "rejected" | "poison":
                return self.status
            case _:
                raise ValueError(f"{self.status} ends no session")


CANCELLED = End("cancelled", "requested")
CANCELLED_BESIDE = End("cancelled", "requested", perhaps_begun=True)
"""Of a task that its session's owner did not run a moment ago."""
EXPIRED = End("expired", "deadline")
SESSION_ENDED = End("rejected", "session_ended")
UNKNOWN_SESSION = End("rejected", "unknown_session")
INVALID = End("rejected", "invalid")
POISON = End("poison", "deaths")


class Came(msgspec.Struct, frozen=True):
    """How a later task of a session came; of the first one its record says it."""

    accepted_ms: int = 0
    """The stream's clock: PubAck; 0: not known."""
    replay_of: str = ""
    """Of what it is a replay."""


NOT_KNOWN = Came()


def too_many(session_max: int, tenant_max: int) -> End:
    """Return the end of an inbox entry above a bound."""
    return End(
        "rejected",
        "limit",
        words=f"too many tasks wait: at most {session_max} in a session's inbox (INBOX_ENTRIES_MAX), and "
        f"{tenant_max} of a tenant in one shard (TENANT_INBOX_ENTRIES_MAX)",
    )


def result(
    task: str, record: Record, end: End, *, now_ms: int, came: Came = NOT_KNOWN
) -> TaskResult:
    """Return the result of a task of a session that has a record.

    Args:
        task: the task.
        record: the session's record as it is, or as it will be written with the result.
        end: how the task ends.
        now_ms: wall clock, milliseconds since 1970.
        came: how it came, if it is not the session's first.
    """
    if task == record.session:
        came = Came(record.accepted_ms, record.replay_of)
    hit = bool(record.interruptions) and record.death_task in ("", task)
    return TaskResult(
        task=task,
        session=record.session,
        tenant=record.tenant,
        pool=record.pool,
        status=end.status,
        reason=end.reason,
        error=_error(end, hit),
        epoch=record.epoch,
        attempt=record.attempt,
        timing=Timing(accepted_ms=came.accepted_ms, finished_ms=now_ms),
        interruptions=record.interruptions if hit else (),
        replay_of=came.replay_of,
    )


def result_of(
    who: tuple[str, str, str], record: Record | None, end: End, *, now_ms: int, came: Came
) -> TaskResult:
    """Return the result of a task, whether its session has a record or not.

    Args:
        who: tenant, session, task.
        record: as `result` takes it; None: there is none.
        end: how the task ends.
        now_ms: wall clock, milliseconds since 1970.
        came: what is known of its coming.
    """
    if record is None:
        return result_without_record(who, end, now_ms=now_ms, came=came)
    return result(who[2], record, end, now_ms=now_ms, came=came)


def result_without_record(
    who: tuple[str, str, str], end: End, *, now_ms: int, came: Came = NOT_KNOWN
) -> TaskResult:
    """Return the result of a task of a session that has no record.

    Args:
        who: (tenant, session, task).
        end: how the task ends.
        now_ms: wall clock, milliseconds since 1970.
        came: how it came.
    """
    tenant, session, task = who
    return TaskResult(
        task=task,
        session=session,
        tenant=tenant,
        status=end.status,
        reason=end.reason,
        error=_error(end),
        timing=Timing(accepted_ms=came.accepted_ms, finished_ms=now_ms),
        replay_of=came.replay_of,
    )


def _error(end: End, hit: bool = False) -> ErrorInfo:
    # A worker that died in the middle may have run it in part; all else here was never begun, or is said by a worker.
    return ErrorInfo(
        code="limit_exceeded" if end.reason == "limit" else end.reason,
        message=f"the task is {end.status}: {end.words or _WORDS[end.reason]}",
        definite=not (hit or end.perhaps_begun or end.status == "poison"),
    )
