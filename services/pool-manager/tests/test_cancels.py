"""What a cancel does at each stage, decided from what the leader says."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given
from msgspec.structs import replace

from pool_manager.core import ends
from pool_manager.core.cancels import AskOwner, EndSession, EndTask, Step, Target, Tell, next_step
from pool_manager.core.ends import CANCELLED, CANCELLED_BESIDE, SESSION_ENDED
from shared.messages import Interruption, TaskResult
from shared.record import ENDED, Record, State

SESSION, TASK = "session-1", "task-0001"
STATES: tuple[State, ...] = (
    "queued", "running", "waiting", "rescuing", "forking", "idle",
    "closed", "rejected", "expired", "cancelled", "poison",
)  # fmt: skip


def record(state: State, *, first_done: bool = False) -> Record:
    """Return a record."""
    return Record(
        session=SESSION,
        tenant="t",
        pool="p",
        state=state,
        lane="batch",
        client_lane="batch",
        keep=True,
        accepted_ms=1,
        epoch=3,
        owner="w" if state == "running" else None,
        first_done=first_done,
    )


def step(
    task: str,
    found: Record | None,
    *,
    result: str = "",
    asked: Record | None = None,
    pool: str = "p",
) -> Step:
    """Return the decision."""
    stored = None
    if result:
        stored = TaskResult(task=task, session=SESSION, tenant="t", status=result)  # type: ignore[arg-type]  # a status
    target = Target("t", SESSION, task, pool or None)
    return next_step(target, found, stored, not_by=asked, now_ms=9)


def test_a_result_is_the_end_of_it() -> None:
    """Whatever the record says."""
    assert step(TASK, record("running"), result="ok").outcome == "finished"  # type: ignore[union-attr]  # fails if not Tell
    assert step(SESSION, record("closed"), result="cancelled").outcome == "cancelled"  # type: ignore[union-attr]  # likewise


@pytest.mark.parametrize("state", ["queued", "waiting", "rescuing", "forking"])
def test_a_first_task_that_nobody_runs_ends_with_its_session(state: State) -> None:
    """Record and result in one batch, under a new epoch."""
    decision = step(SESSION, record(state))

    assert isinstance(decision, EndSession)
    assert (decision.record.state, decision.record.epoch) == ("cancelled", 4)


def test_a_first_task_that_is_not_published_yet_ends_before_its_birth() -> None:
    """If the caller says in which pool; else there is nowhere to write it."""
    decision = step(SESSION, None)
    assert isinstance(decision, EndSession)
    assert (decision.record.state, decision.record.epoch) == ("cancelled", 0)

    assert step(SESSION, None, pool="") == Tell("unknown")


def test_an_owner_is_asked_first() -> None:
    """It knows what it runs."""
    assert step(SESSION, record("running")) == AskOwner("w", 3)
    assert step(TASK, record("running", first_done=True)) == AskOwner("w", 3)


def test_a_task_that_its_owner_does_not_run_gets_its_result_alone() -> None:
    """The same owner is not asked twice, another one is."""
    running = record("running", first_done=True)

    assert step(TASK, running, asked=running) == EndTask(CANCELLED_BESIDE)
    other = replace(running, owner="w2", epoch=5)
    assert step(TASK, other, asked=running) == AskOwner("w2", 5)


@pytest.mark.parametrize("state", ["queued", "idle", "waiting"])
def test_an_inbox_task_of_an_unowned_session_gets_its_result_alone(state: State) -> None:
    """The session goes on."""
    assert step(TASK, record(state, first_done=True)) == EndTask(CANCELLED)


def test_an_inbox_task_of_an_ended_session_is_rejected() -> None:
    """It would have been anyway."""
    assert step(TASK, record("closed", first_done=True)) == EndTask(SESSION_ENDED)


def test_a_first_task_whose_result_was_kept_for_its_time_is_finished() -> None:
    """Results live 48 h."""
    assert step(SESSION, record("idle", first_done=True)) == Tell("finished")
    assert step(SESSION, record("closed", first_done=True)) == Tell("finished")


@given(
    state=st.sampled_from(STATES),
    first_done=st.booleans(),
    first=st.booleans(),
    asked=st.booleans(),
)
def test_no_session_is_ended_past_its_owner(
    state: State, first_done: bool, first: bool, asked: bool
) -> None:
    """What a worker runs is ended by that worker; what has ended stays as it ended."""
    found = record(state, first_done=first_done)
    decision = step(SESSION if first else TASK, found, asked=found if asked else None)

    if isinstance(decision, EndSession):
        assert state not in ("running", *ENDED)
        assert not first_done
    if state == "running" and (first is False or not first_done) and not asked:
        assert isinstance(decision, AskOwner)


def test_a_cancel_beside_a_working_owner_does_not_claim_that_the_task_was_never_begun() -> None:
    """The owner, who did not run it when asked, may begin it before the result is written."""
    running = record("running", first_done=True)
    beside, alone = (
        step(TASK, running, asked=running),
        step(TASK, record("queued", first_done=True)),
    )

    assert isinstance(beside, EndTask)
    assert isinstance(alone, EndTask)
    errors = [ends.result(TASK, running, each.end, now_ms=9).error for each in (beside, alone)]
    assert [error and error.definite for error in errors] == [False, True]


def test_the_end_of_an_interrupted_task_says_so() -> None:
    """It may have happened in part; the session's other tasks did not."""
    hit = Interruption(cause="process_exit", epoch=1, worker="w", revoked_ms=1)
    queued = replace(record("queued", first_done=True), interruptions=(hit,), death_task=TASK)
    told = ends.result(TASK, queued, CANCELLED, now_ms=9)
    other = ends.result(SESSION, queued, CANCELLED, now_ms=9)

    assert (told.interruptions, told.error and told.error.definite) == ((hit,), False)
    assert (other.interruptions, other.error and other.error.definite) == ((), True)
