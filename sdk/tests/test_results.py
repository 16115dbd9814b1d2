"""From stored results to exit codes and exceptions."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from agent_sandbox.results import NoResultYet, Result, TaskFailed, describe, exit_code_of
from shared.errors import Draining, ErrorInfo, NotFound, OutcomeUnknown, Rejected, error_of
from shared.messages import Interruption, Stream, TaskResult, Timing


def stored(**fields: Any) -> TaskResult:
    """Return a stored result with these fields."""
    return TaskResult(task="task-0001", session="task-0001", tenant="default", **fields)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"status": "ok"}, 0),
        ({"status": "ok", "exit_code": 0}, 0),
        ({"status": "failed", "reason": "exit_code", "exit_code": 3}, 3),
        ({"status": "failed", "reason": "signal", "signal": 11}, 139),
        ({"status": "failed", "reason": "oom", "signal": 9}, 137),
        ({"status": "failed", "reason": "timeout", "signal": 9}, 124),
        (
            {
                "status": "failed",
                "reason": "exec",
                "error": ErrorInfo(code="exec_not_found", message=""),
            },
            127,
        ),
        (
            {
                "status": "failed",
                "reason": "exec",
                "error": ErrorInfo(code="exec_denied", message=""),
            },
            126,
        ),
        ({"status": "failed", "reason": "limit"}, 125),
        ({"status": "failed", "reason": "sandbox_lost"}, 125),
        ({"status": "failed", "reason": "file"}, 125),
        ({"status": "cancelled", "reason": "requested", "signal": 9}, 130),
        ({"status": "expired", "reason": "deadline"}, 124),
        ({"status": "rejected", "reason": "invalid"}, 125),
        ({"status": "poison", "reason": "deaths"}, 125),
        ({"status": "interrupted", "reason": "worker_lost"}, 125),
    ],
)
def test_every_end_has_its_exit_code(fields: dict[str, Any], code: int) -> None:
    """The program's own where it ended by itself; else the one that says whose fault it was."""
    assert exit_code_of(stored(**fields)) == code


def test_a_result_is_described_in_one_sentence() -> None:
    """The system's words where it has some, else what the reason means."""
    error = ErrorInfo(code="timeout", message="ran longer than timeout_s")

    said = describe(stored(status="failed", reason="timeout", error=error))
    plain = describe(stored(status="failed", reason="exit_code", exit_code=2))

    assert said == "task task-0001 failed: ran longer than timeout_s"
    assert plain == "task task-0001 failed: exit code 2"


def test_a_failed_programs_exception_ends_with_what_it_said_last() -> None:
    """What went wrong stands in the last line of a traceback; of a signal or a limit nobody has written anything."""
    trace = "Traceback (most recent call last):\n  …\nZeroDivisionError: division by zero\n\n"
    failed = {"status": "failed", "reason": "exit_code", "exit_code": 1}
    raised = TaskFailed(Result(raw=stored(**failed, stderr=Stream(text=trace))))
    silent = TaskFailed(Result(raw=stored(**failed)))
    long = TaskFailed(Result(raw=stored(**failed, stderr=Stream(text="x" * 5000))))
    killed = TaskFailed(
        Result(raw=stored(status="failed", reason="signal", signal=9, stderr=Stream(text="x")))
    )

    assert str(raised) == "task task-0001 failed: exit code 1: ZeroDivisionError: division by zero"
    assert str(silent) == "task task-0001 failed: exit code 1"
    assert len(str(long)) < 300
    assert str(killed) == "task task-0001 failed: killed by signal 9"


def test_check_raises_for_everything_but_ok() -> None:
    """The exception keeps the result, and knows whether the task surely did nothing."""
    fine = Result(raw=stored(status="ok"))
    refused = Result(raw=stored(status="rejected", reason="session_ended"))
    stopped = Result(raw=stored(status="cancelled", timing=Timing(started_ms=5.0)))

    with pytest.raises(TaskFailed) as never_ran:
        refused.check()
    with pytest.raises(TaskFailed) as ran:
        stopped.check()

    assert fine.check() is fine
    assert never_ran.value.result is refused
    assert (never_ran.value.did_nothing, ran.value.did_nothing) == (True, False)


def test_a_task_that_may_have_begun_did_not_surely_do_nothing() -> None:
    """A worker died in the middle of it, or was about to begin it when it was cancelled."""
    hit = Interruption(cause="process_exit", epoch=1, worker="w", revoked_ms=1)
    unsure = ErrorInfo(code="requested", message="cancelled on request", definite=False)

    interrupted = TaskFailed(Result(raw=stored(status="cancelled", interruptions=(hit,))))
    beside = TaskFailed(Result(raw=stored(status="cancelled", error=unsure)))

    assert (interrupted.did_nothing, beside.did_nothing) == (False, False)


def test_json_holds_what_is_stored_and_what_the_caller_saw() -> None:
    """One flat object."""
    fields = Result(raw=stored(status="ok", exit_code=0), tti_s=0.004, total_s=0.02).to_json()

    assert fields["status"] == "ok"
    assert (fields["tti_s"], fields["total_s"]) == (0.004, 0.02)


def test_an_error_in_an_answer_becomes_the_exception_of_its_code() -> None:
    """So that callers catch what a pool-manager says like what the client says itself."""
    assert type(error_of(NotFound("gone").info())) is NotFound
    assert type(error_of(Draining("leaving").info())) is Draining
    assert type(error_of(ErrorInfo(code="of_tomorrow", message="x"))) is Rejected
    assert (
        type(error_of(ErrorInfo(code="of_tomorrow", message="x", definite=False))) is OutcomeUnknown
    )


def test_the_end_of_a_wait_is_a_timeout_as_python_knows_it_and_goes_through_a_pickle() -> None:
    """With the ids by which the result is found later; executors send exceptions between processes."""
    over = pickle.loads(pickle.dumps(NoResultYet("task-0001", "session-1", "the wait is over")))

    assert isinstance(over, TimeoutError)
    assert isinstance(over, OutcomeUnknown)
    assert (over.code, over.definite) == ("no_result_yet", False)
    assert (over.task_id, over.session_id) == ("task-0001", "session-1")
    assert str(over) == (
        "no result of task task-0001: the wait is over; it goes on, ask again under this id"
    )


def test_a_failed_task_goes_through_a_pickle() -> None:
    """With its result."""
    failed = TaskFailed(Result(raw=stored(status="failed", reason="exit_code", exit_code=3)))

    assert pickle.loads(pickle.dumps(failed)).result == failed.result


def test_an_error_of_an_answer_keeps_whether_it_may_have_happened() -> None:
    """Also where its code is one of ours that means the opposite."""
    assert type(error_of(ErrorInfo(code="not_found", message="m"))) is NotFound
    assert (
        type(error_of(ErrorInfo(code="not_found", message="m", definite=False))) is OutcomeUnknown
    )
    assert type(error_of(ErrorInfo(code="strange", message="m"))) is Rejected
