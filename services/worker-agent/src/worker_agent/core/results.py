"""From how a run ended to the one terminal result of its task."""

from __future__ import annotations

from typing import Literal

import msgspec

from shared import messages
from shared.errors import ErrorInfo
from shared.files import FileEntry, OutputFile
from shared.letters import DeadLetter
from shared.messages import Interpreter, Interruption, Reason, Status, TaskResult, Timing
from shared.record import Record
from shared.recovery import Recovery
from shared.topology import RESULT_BYTES_MAX
from worker_agent.core.output import OutputBook

StopCause = Literal["timeout", "deadline", "cancel", "limit"]
"""Why *we* ended the user's code."""


class RunEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How one attempt ended in the sandbox."""

    exit_code: int | None = None
    signal: int | None = None
    stopped: StopCause | None = None
    limit: str = ""
    """Which limit, for `stopped="limit"`."""
    oom: bool = False
    """The kernel killed a process of the sandbox for memory during this attempt."""
    lost: bool = False
    """The sandbox itself is gone."""
    failure: ErrorInfo | None = None
    """The runner could not do it: program not found, file error."""
    interpreter: Interpreter | None = None
    data: bytes | None = None
    size: int | None = None
    entries: tuple[FileEntry, ...] | None = None
    truncated: bool = False
    outputs: tuple[OutputFile, ...] = ()


class Verdict(msgspec.Struct, frozen=True):
    """Status of a result and why it is not `ok`."""

    status: Status
    reason: Reason | None = None
    error: ErrorInfo | None = None


TOO_MUCH_MEMORY = Verdict(
    "failed",
    "oom",
    ErrorInfo(code="oom", message="the sandbox ran out of memory (memory_mib)", definite=False),
)


def judge(end: RunEnd) -> Verdict:
    """Tell apart how a run ended; the cause comes before its symptom (a timeout before the signal that it sent)."""
    match end.stopped:
        case "cancel":
            return Verdict("cancelled", "requested")
        case "timeout":
            return Verdict(
                "failed", "timeout", _error("timeout", "the task ran longer than timeout_s")
            )
        case "deadline":
            return Verdict(
                "expired", "deadline", _error("deadline", "deadline_s passed while the task ran")
            )
        case "limit":
            return Verdict(
                "failed",
                "limit",
                _error("limit_exceeded", f"the sandbox passed its limit: {end.limit}"),
            )
        case None:
            pass
    failed_run = end.lost or end.signal is not None or end.exit_code not in (0, None)
    if end.oom and failed_run:
        return TOO_MUCH_MEMORY
    if end.lost:
        return Verdict(
            "failed",
            "sandbox_lost",
            _error("sandbox_lost", "the sandbox ended in the middle of the task"),
        )
    if end.failure is not None:
        return Verdict("failed", _reason_of(end.failure.code), end.failure)
    if end.signal is not None:
        return Verdict("failed", "signal")
    if end.exit_code not in (0, None):
        return Verdict("failed", "exit_code")
    return Verdict("ok")


def _reason_of(code: str) -> Reason:
    if code.startswith("exec_"):
        return "exec"
    return "limit" if code == "limit_exceeded" else "file"


def _error(code: str, message: str) -> ErrorInfo:
    return ErrorInfo(code=code, message=message, definite=False)


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a task ran."""

    worker: str
    node: str
    isolation: str


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """Which task of which session is tried, and with what record."""

    task: str
    kind: str
    record: Record
    """As the owner last wrote or read it."""
    timing: Timing = Timing()
    recovery: Recovery | None = None
    """How it goes on, if it was interrupted."""
    replay_of: str = ""

    @staticmethod
    def of(task: str, record: Record) -> Attempt:
        """Return the attempt of a task whose body was not read."""
        return Attempt(
            task=task,
            kind="",
            record=record,
            timing=Timing(accepted_ms=record.accepted_ms),
            replay_of=record.replay_of,
        )


def letter_of(record: Record, task: str, verdict: Verdict) -> DeadLetter:
    """Return the dead letter of a task that ends by `verdict`."""
    return DeadLetter(
        tenant=record.tenant,
        session=record.session,
        task=task,
        pool=record.pool,
        klass=record.client_lane,
        status=verdict.status,
        reason=verdict.reason or "invalid",
        error=verdict.error or _error("rejected", verdict.status),
        attempts=max(record.attempt, 1),
        accepted_ms=record.accepted_ms,
        replay_of=record.replay_of if task == record.session else "",
    )


def result_of_run(attempt: Attempt, place: Place, end: RunEnd, book: OutputBook) -> TaskResult:
    """Return the result of a task that ran."""
    return msgspec.structs.replace(
        result_without_run(attempt, place, judge(end)),
        exit_code=end.exit_code,
        signal=end.signal,
        stdout=book.stdout(),
        stderr=book.stderr(),
        data=end.data,
        size=end.size,
        entries=end.entries,
        truncated=end.truncated,
        outputs=end.outputs,
        interpreter=end.interpreter,
    )


def result_without_run(attempt: Attempt, place: Place, verdict: Verdict) -> TaskResult:
    """Return the result of a task whose end was decided without running it."""
    record = attempt.record
    return TaskResult(
        task=attempt.task,
        session=record.session,
        tenant=record.tenant,
        pool=record.pool,
        kind=attempt.kind,
        status=verdict.status,
        reason=verdict.reason,
        error=verdict.error,
        epoch=record.epoch,
        attempt=record.attempt,
        worker=place.worker,
        node=place.node,
        isolation=place.isolation,
        timing=attempt.timing,
        interruptions=_recovered(record.interruptions, attempt.timing.started_ms),
        recovery=attempt.recovery,
        workspace_lost=record.lost,
        replay_of=attempt.replay_of,
    )


def _recovered(
    interruptions: tuple[Interruption, ...], started_ms: float
) -> tuple[Interruption, ...]:
    """Say of the newest interruption when the task went on after it."""
    if not interruptions or not started_ms:
        return interruptions
    newest = msgspec.structs.replace(interruptions[-1], recovered_ms=int(started_ms))
    return (*interruptions[:-1], newest)


def surely_fits(result: TaskResult) -> bool:
    """Return whether a state stream takes a result of this size, if it takes any."""
    return len(messages.encode(result)) <= RESULT_BYTES_MAX // 2


def not_kept(result: TaskResult, error: ErrorInfo | None) -> TaskResult:
    """Return the result of a task that was to save the workspace and could not: a failure, nothing is given up."""
    why = error or ErrorInfo(code="unavailable", message="this node has no checkpointer")
    return msgspec.structs.replace(result, status="failed", reason="no_snapshot", error=why)


def without_content(result: TaskResult, error: ErrorInfo) -> TaskResult:
    """Return a result that was too large to store, as a failure without what it brought."""
    return msgspec.structs.replace(
        result,
        status="failed",
        reason="limit",
        error=error,
        stdout=msgspec.structs.replace(result.stdout, text="", truncated=True),
        stderr=msgspec.structs.replace(result.stderr, text="", truncated=True),
        data=None,
        entries=None,
        truncated=True,
    )
