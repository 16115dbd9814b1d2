"""A bound worker over a truth that answers as it is told to: not at all, or with somebody else's word."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from holding import SESSION, FakeSandbox, FakeTruth, body, entry, hold, owned

from shared.errors import LimitExceeded, OutcomeUnknown
from shared.ids import TOKEN_LENGTH_MAX
from shared.messages import TaskResult
from shared.record import Record
from shared.service import Stop
from worker_agent.core.results import RunEnd
from worker_agent.loops import commit, hold_session, run_task


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit, "RETRY_MAX_S", 0.001)
    monkeypatch.setattr(commit, "RETRY_MIN_S", 0.0)
    monkeypatch.setattr(hold_session, "RETRY_S", 0.001)


class TestCommit:
    """Rule 3, where the store refuses."""

    async def test_a_full_store_costs_a_small_result_nothing(self) -> None:
        """The task stays `saving`; its output is not thrown away."""
        truth, sandbox = FakeTruth(), FakeSandbox()
        held = owned(truth, body(keep=False))
        truth.faults = [LimitExceeded("maximum bytes exceeded")] * 2
        await hold(truth, sandbox, held, Stop())

        assert truth.results[SESSION].status == "ok"
        assert truth.record.state == "closed"

    async def test_an_id_that_was_published_twice_leaves_no_record_without_an_end(self) -> None:
        """Its one result is another record's; this one closes, and takes nothing more."""
        truth, sandbox = FakeTruth(), FakeSandbox()
        held = owned(truth, body(keep=True))
        first = truth.results[SESSION] = TaskResult(
            task=SESSION, session=SESSION, tenant="t", status="ok"
        )
        await hold(truth, sandbox, held, Stop())

        assert truth.record.state == "closed"
        assert truth.results == {SESSION: first}

    async def test_its_own_commit_that_lands_late_is_no_double(self) -> None:
        """It lands after the record was read and before the result is looked for: the session stays open.

        Taken for an id that was published twice, it closed the session, and what was in its inbox was refused.
        """
        truth, sandbox = FakeTruth(), FakeSandbox()
        held = owned(truth, body(keep=True))
        late: list[tuple[Record, int, TaskResult]] = []
        commit_now, look_now = truth.commit, truth.result_exists

        async def commit_late(record: Record, expected_seq: int, result: TaskResult) -> int:
            if not late:
                late.append((record, expected_seq, result))
                raise OutcomeUnknown("no answer")
            return await commit_now(record, expected_seq, result)

        async def land_and_look(record: Record, name: str) -> bool:
            if name == SESSION and name not in truth.results:
                await commit_now(*late[0])
            return await look_now(record, name)

        truth.commit = commit_late  # type: ignore[method-assign]  # this store is slow, once
        truth.result_exists = land_and_look  # type: ignore[method-assign]  # likewise
        await hold(truth, sandbox, held, Stop())

        assert sandbox.ran == [SESSION]
        assert truth.record.state == "idle"
        assert truth.record.tasks_done == 1

    @pytest.mark.parametrize("name", ["*", "\ufffd", "t" * (TOKEN_LENGTH_MAX + 1)])
    async def test_a_task_that_no_name_finds_again_is_buried_and_passed(self, name: str) -> None:
        """No result can be stored or read under it; the next task runs, and the position covers both."""
        truth, sandbox = FakeTruth(), FakeSandbox()
        held = owned(truth, body(keep=True))
        truth.inbox = [msgspec.structs.replace(entry(5), task=name), entry(6)]
        await hold(truth, sandbox, held, Stop())

        assert sandbox.ran == [SESSION, "task-0006"]
        assert list(truth.results) == [SESSION, "task-0006"]
        assert [(one.task, one.reason) for one in truth.letters] == [(name, "invalid")]
        assert "subject" in truth.letters[0].error.message
        assert truth.record.position == 6

    async def test_a_class_that_there_is_not_is_refused_by_name(self) -> None:
        """A definite end for one task, and the next one runs."""
        truth, sandbox, stop = FakeTruth(), FakeSandbox(), Stop()
        truth.inbox = [entry(1, "recovery"), entry(2, "batch")]
        sandbox.after_run = [lambda: None, lambda: stop.set("SIGTERM")]
        await hold(truth, sandbox, owned(truth, body(keep=True)), stop)

        result = truth.results["task-0001"]
        assert (result.status, result.reason) == ("rejected", "invalid")
        assert result.error is not None
        assert "Agent-Class" in result.error.message
        assert sandbox.ran == [SESSION, "task-0002"]


class TestLeaving:
    """A worker that is told to leave, or has lost its sandbox."""

    async def test_a_leaving_worker_finishes_one_task_and_passes_the_others_on(self) -> None:
        """However full the inbox is: the next one would be cut off in the middle."""
        truth, sandbox, stop = FakeTruth(), FakeSandbox(), Stop()
        truth.inbox = [entry(1), entry(2), entry(3)]
        sandbox.after_run = [lambda: None, lambda: stop.set("SIGTERM")]
        await hold(truth, sandbox, owned(truth, body(keep=True)), stop)

        assert sandbox.ran == [SESSION, "task-0001"]
        assert (truth.record.state, truth.record.owner, truth.record.position) == (
            "queued",
            None,
            1,
        )
        assert truth.record.lost is not None
        assert truth.record.lost.cause == "released"

    async def test_what_is_passed_on_waits_as_urgently_as_it_asks(self) -> None:
        """The session's own class is `interactive`; the first of two asks for `batch`, the second for nothing."""
        for inbox, lane in [([1], "batch"), ([1, 2], "interactive")]:
            truth, sandbox, stop = FakeTruth(), FakeSandbox(), Stop()
            truth.inbox = [entry(seq, "batch" if seq == 1 else None) for seq in inbox]
            sandbox.after_run = [lambda stop=stop: stop.set("SIGTERM")]
            await hold(truth, sandbox, owned(truth, body(keep=True)), stop)

            assert (truth.record.state, truth.record.lane) == ("queued", lane)

    async def test_a_leaving_worker_with_nothing_to_do_leaves_an_idle_session(self) -> None:
        """Nobody is asked for."""
        truth, sandbox, stop = FakeTruth(), FakeSandbox(), Stop()
        sandbox.after_run = [lambda: stop.set("SIGTERM")]
        await hold(truth, sandbox, owned(truth, body(keep=True)), stop)

        assert truth.record.state == "idle"

    async def test_a_lost_sandbox_is_said_and_what_waits_goes_on_elsewhere(self) -> None:
        """The record names the cause, and asks for another worker at once."""
        truth, sandbox = FakeTruth(), FakeSandbox()
        truth.inbox = [entry(1), entry(2)]
        sandbox.after_run = [lambda: None, lambda: setattr(sandbox, "lost", True)]
        await hold(truth, sandbox, owned(truth, body(keep=True)), Stop())

        assert sandbox.ran == [SESSION, "task-0001"]
        assert (truth.record.state, truth.record.position) == ("queued", 1)
        assert truth.record.lost is not None
        assert truth.record.lost.cause == "sandbox_lost"

    async def test_a_worker_that_dies_with_its_sandbox_writes_no_failure(self) -> None:
        """A node that is killed may take the sandbox first: the task is to run again, not to have failed."""
        truth, sandbox = FakeTruth(), FakeSandbox()
        sandbox.end = RunEnd(lost=True)
        holding = asyncio.create_task(hold(truth, sandbox, owned(truth, body(keep=True)), Stop()))
        await asyncio.sleep(run_task.LOSS_GRACE_S / 5)
        assert sandbox.ran == [SESSION]
        assert truth.results == {}

        await holding  # it outlived its sandbox after all: the sandbox ended by itself
        assert truth.results[SESSION].reason == "sandbox_lost"

    async def test_an_idle_worker_that_finds_work_after_its_release_takes_the_session_back(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What came in between the last look and the release is not lost."""
        truth, sandbox = FakeTruth(), FakeSandbox()
        put = truth.put

        def put_and_publish(record: Record) -> int:
            if record.state == "idle" and not truth.inbox:
                truth.inbox.append(entry(1))
            return put(record)

        monkeypatch.setattr(truth, "put", put_and_publish)
        await hold(truth, sandbox, owned(truth, body(keep=True)), Stop())

        assert sandbox.ran == [SESSION, "task-0001"]
        assert set(truth.results) == {SESSION, "task-0001"}
        assert (truth.record.state, truth.record.losses) == ("idle", 1)


async def test_a_shard_that_stays_away_ends_the_wait() -> None:
    """Contact to a server does not help where the shard never answers."""
    truth, sandbox = FakeTruth(), FakeSandbox()
    truth.inbox = [entry(1)]
    truth.unread = 10**9

    with pytest.raises(OutcomeUnknown):
        await hold(truth, sandbox, owned(truth, body(keep=True)), Stop(), give_up_s=0.05)
