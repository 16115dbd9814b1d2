"""What a client gets back: the stored result with what the caller's own clock saw."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from shared.errors import OutcomeUnknown, ServiceError
from shared.files import FileEntry, ObjectRef
from shared.messages import TaskResult
from shared.rest import Tti

LAST_LINE_LENGTH_MAX = 200


class TaskFailed(ServiceError):
    """A task did not end as `ok`; `result` says how. Raised by `Result.check` and by the file operations."""

    code: ClassVar[str] = "task_failed"

    def __init__(self, result: Result) -> None:
        """Keep the result; its status decides whether the task surely did nothing."""
        last = _last_line(result.raw)
        super().__init__(describe(result.raw) + (f": {last}" if last else ""))
        self.result = result

    def __reduce__(self) -> tuple[Any, ...]:
        """Come out of another process whole, as of an executor's."""
        return (TaskFailed, (self.result,))

    @property
    def did_nothing(self) -> bool:
        """Whether the task surely did nothing: it was refused, or ended before a worker ran it."""
        raw = self.result.raw
        never_begun = not raw.timing.started_ms and not raw.interruptions
        definite = raw.error is None or raw.error.definite
        return raw.status in ("rejected", "expired", "cancelled") and never_begun and definite


class NoResultYet(OutcomeUnknown, TimeoutError):
    """The wait for a result is over, and there is none yet. The task goes on; its result can be read under its id."""

    code: ClassVar[str] = "no_result_yet"

    def __init__(self, task_id: str, session_id: str, why: str) -> None:
        """Keep the ids, by which `Client.read_result` finds it later."""
        super().__init__(f"no result of task {task_id}: {why}; it goes on, ask again under this id")
        self.task_id = task_id
        self.session_id = session_id
        self._why = why

    def __reduce__(self) -> tuple[Any, ...]:
        """Come out of another process whole, as of an executor's."""
        return (NoResultYet, (self.task_id, self.session_id, self._why))


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The one terminal result of a task."""

    raw: TaskResult
    """As it is stored: everything that is known."""
    tti_s: float | None = None
    """Seconds from the caller's call to the first instruction of user code, as the caller saw it; None: not seen. Of a
    task that was run again after a loss: its first start."""
    tti: Tti | None = None
    """The same in milliseconds, with the way that the task took to its worker and the parts of the wait."""
    total_s: float = 0.0
    """Seconds from the caller's call to the result."""

    @property
    def ok(self) -> bool:
        """Whether it did what was asked (for a command: exit code 0)."""
        return self.raw.status == "ok"

    @property
    def status(self) -> str:
        """`ok`, `failed`, `cancelled`, `expired`, `rejected`, `poison` or `interrupted`."""
        return self.raw.status

    @property
    def reason(self) -> str | None:
        """Why it is not `ok`."""
        return self.raw.reason

    @property
    def task_id(self) -> str:
        """Id of the task."""
        return self.raw.task

    @property
    def session_id(self) -> str:
        """Id of its session; a one-shot's is the task's own."""
        return self.raw.session

    @property
    def exit_code(self) -> int | None:
        """Exit code of the command; None where there is none."""
        return self.raw.exit_code

    @property
    def stdout(self) -> str:
        """What it wrote to stdout; the newest part where `raw.stdout.truncated`."""
        return self.raw.stdout.text

    @property
    def stderr(self) -> str:
        """What it wrote to stderr; the newest part where `raw.stderr.truncated`."""
        return self.raw.stderr.text

    @property
    def data(self) -> bytes:
        """Content that a `read` returned."""
        return self.raw.data or b""

    @property
    def entries(self) -> tuple[FileEntry, ...]:
        """What a `list` returned."""
        return self.raw.entries or ()

    @property
    def outputs(self) -> dict[str, ObjectRef]:
        """Files that were put into the object store, by their paths; `Client.objects` reads them."""
        return {output.path: output.object for output in self.raw.outputs}

    def check(self) -> Result:
        """Return the result itself if it is `ok`.

        Raises:
            TaskFailed: it is not.
        """
        if not self.ok:
            raise TaskFailed(self)
        return self

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain data: the stored fields with the caller's times beside them."""
        fields: dict[str, Any] = msgspec.to_builtins(self.raw)
        own = {"tti_s": self.tti_s, "tti": msgspec.to_builtins(self.tti), "total_s": self.total_s}
        return fields | own


def _last_line(result: TaskResult) -> str:
    """Return the last line that a failed program wrote to stderr, shortened: where Python and most others say why."""
    if result.reason != "exit_code":
        return ""
    lines = result.stderr.text.strip().splitlines()
    return lines[-1].strip()[:LAST_LINE_LENGTH_MAX] if lines else ""


def describe(result: TaskResult) -> str:
    """Return one sentence that says how a task ended."""
    how: dict[str, str] = {
        "exit_code": f"exit code {result.exit_code}",
        "signal": f"killed by signal {result.signal}",
        "requested": "on request",
    }
    said = result.error.message if result.error else how.get(result.reason or "", result.reason)
    return f"task {result.task} {result.status}" + (f": {said}" if said else "")


def describe_tti(tti: Tti) -> str:
    """Return a time to interactive with its parts in one phrase."""
    return (
        f"{tti.tti_ms:.1f} ms ({tti.path}: queue {tti.queue_wait_ms:.1f}, claim {tti.claim_ms:.1f}, "
        f"start {tti.start_ms:.1f})"
    )


EXIT_TIMEOUT = 124
EXIT_SYSTEM = 125
EXIT_NOT_EXECUTABLE = 126
EXIT_NOT_FOUND = 127
EXIT_OOM = 137
EXIT_CANCELLED = 130
SIGNAL_BASE = 128


def exit_code_of(result: TaskResult) -> int:
    """Return the exit code with which a command line stands for this result.

    The command's own; 128 + signal; 137 out of memory; 126 and 127 it can't be run or found, as in a shell; 124
    timeout or deadline; 130 cancelled; 125 the system's fault or refusal.
    """
    match result.status:
        case "ok":
            return result.exit_code or 0
        case "cancelled":
            return EXIT_CANCELLED
        case "expired":
            return EXIT_TIMEOUT
        case "failed":
            pass
        case _:
            return EXIT_SYSTEM
    match result.reason:
        case "exit_code" if result.exit_code is not None:
            return result.exit_code
        case "signal" if result.signal is not None:
            return SIGNAL_BASE + result.signal
        case "oom":
            return EXIT_OOM
        case "exec" if result.error is not None:
            found = result.error.code != "exec_not_found"
            return EXIT_NOT_EXECUTABLE if found else EXIT_NOT_FOUND
        case "timeout" | "deadline":
            return EXIT_TIMEOUT
        case _:
            return EXIT_SYSTEM
