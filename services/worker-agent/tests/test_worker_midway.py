"""A session's files in the middle of a task: checkpoints, interruptions, zombies."""

from __future__ import annotations

import asyncio

import pytest
from checkpointing import (
    FIRST,
    Place,
    Sandbox,
    kept_session,
    taken_over,
    writes,
)  # fmt: skip
from holding import SESSION, FakeVoice, entry

from shared import limits
from shared.errors import Conflict, StaleEpoch
from shared.pools import OnInterrupt
from shared.record import Record
from shared.testing.wait import until
from worker_agent.loops import midway

NAME, KEY = "AGENT_SANDBOX_TASK", "AGENT_SANDBOX_IDEMPOTENCY_KEY"


class TestInTheMiddle:
    """Checkpoints while a task runs."""

    @pytest.mark.parametrize(
        ("rule", "lines", "lost"),
        [
            ("rerun", ["before", "one", "two"], None),
            ("resume", ["before", "one", "one", "two"], None),
        ],
    )
    async def test_a_task_killed_after_a_checkpoint(
        self, place: Place, rule: OnInterrupt, lines: list[str], lost: None
    ) -> None:
        """`rerun` leaves its line once; `resume` sees it, and is told that it goes on in the middle."""
        first, truth = place.new_pod(), place.truth
        truth.inbox = [entry(1)]

        async def hangs(sandbox: Sandbox) -> None:
            sandbox.append("one")
            await asyncio.Event().wait()

        async def goes_on(sandbox: Sandbox) -> None:
            sandbox.append("one")
            sandbox.append("two")

        first.sandbox.programs = {SESSION: writes("before"), FIRST: hangs}
        dying = asyncio.ensure_future(
            first.hold(truth, kept_session(truth), checkpoint_every_s=0.01)
        )
        await until(lambda: truth.record.latest is not None)
        latest = truth.record.latest
        assert latest is not None
        assert (latest.task, latest.epoch, truth.results.keys()) == (FIRST, 1, {SESSION})
        mark = first.mark()
        assert mark is not None
        assert (mark.session, mark.epoch, mark.task) == (SESSION, 1, FIRST)
        dying.cancel()
        await asyncio.wait({dying})

        second, voice = place.new_pod(), FakeVoice()
        second.sandbox.programs = {FIRST: goes_on}
        await second.hold(truth, taken_over(truth, FIRST), voice=voice, on_interrupt=rule)

        assert second.sandbox.journal() == lines
        env = second.sandbox.orders[0].env
        assert env["AGENT_SANDBOX_ATTEMPT"] == "2"
        first_env = next(one.env for one in first.sandbox.orders if one.env[NAME] == FIRST)
        assert env[KEY] == first_env[KEY] == f"{SESSION}/{FIRST}"
        assert ("AGENT_SANDBOX_INTERRUPTED" in env) == (rule == "resume")
        recovery = truth.results[FIRST].recovery
        assert recovery is not None
        assert (recovery.cause, recovery.rule, recovery.detect_s) == ("process_exit", rule, 0.02)
        assert [name for _, name, _ in voice.events][:2] == ["recovered", "started"]
        assert truth.record.latest is None

    @pytest.mark.parametrize("rule", ["rerun", "resume"])
    async def test_what_would_be_rolled_back_is_counted_from_what_is_gone_back_to(
        self, place: Place, rule: OnInterrupt
    ) -> None:
        """The boundary, as long as its task would run again; else the newest snapshot. Between tasks there is nothing."""
        pod, truth = place.new_pod(), place.truth
        pod.sandbox.changed_bytes = 7
        said: list[int | None] = []

        async def runs_on(sandbox: Sandbox) -> None:
            sandbox.append("one")
            await until(lambda: truth.record.latest is not None)
            assert pod.files is not None
            said.append(pod.files.unsaved_bytes)

        pod.sandbox.programs = {SESSION: runs_on}
        await pod.hold(truth, kept_session(truth), checkpoint_every_s=0.01, on_interrupt=rule)

        assert pod.files is not None
        assert (said, pod.files.unsaved_bytes) == ([7], None)
        assert (len(pod.sandbox.counted) > 1) == (rule == "resume")

    async def test_a_task_that_may_not_run_twice_ends_with_what_it_did(self, place: Place) -> None:
        """`interrupted`, and the inbox goes on with the files from its last checkpoint."""
        first, truth = place.new_pod(), place.truth
        truth.inbox = [entry(1), entry(2)]

        async def hangs(sandbox: Sandbox) -> None:
            sandbox.append("in part")
            await asyncio.Event().wait()

        first.sandbox.programs = {FIRST: hangs}
        dying = asyncio.ensure_future(
            first.hold(truth, kept_session(truth), checkpoint_every_s=0.01)
        )
        await until(lambda: truth.record.latest is not None)
        dying.cancel()
        await asyncio.wait({dying})

        second = place.new_pod()
        second.sandbox.programs = {"task-0002": writes("next")}
        await second.hold(truth, taken_over(truth, FIRST), on_interrupt="fail")

        assert truth.results[FIRST].status == "interrupted"
        assert second.sandbox.journal() == ["in part", "next"]

    async def test_a_worker_that_is_to_leave_saves_the_task_in_hand_at_once(
        self, place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It may not end in the time that is left; what it still does in that time is saved as well."""
        monkeypatch.setattr(midway, "LEAVING_EVERY_S", 0.01)
        pod, truth = place.new_pod(), place.truth

        async def long(sandbox: Sandbox) -> None:
            sandbox.append("one")
            pod.leave()
            await until(lambda: truth.record.latest is not None)
            first = truth.record.latest
            sandbox.append("two")
            await until(lambda: truth.record.latest != first)

        pod.sandbox.programs = {SESSION: long}
        await pod.hold(truth, kept_session(truth), checkpoint_every_s=3600)

        assert truth.record.boundary is not None

    async def test_a_zombie_s_checkpoint_is_refused(self, place: Place) -> None:
        """Its session has another owner: it stops, and neither its checkpoint nor its result is written."""
        pod, truth = place.new_pod(), place.truth

        async def revoked_meanwhile(sandbox: Sandbox) -> None:
            sandbox.append("zombie")
            taken_over(truth, SESSION)
            await asyncio.Event().wait()

        pod.sandbox.programs = {SESSION: revoked_meanwhile}
        with pytest.raises(ExceptionGroup) as raised:
            await pod.hold(truth, kept_session(truth), checkpoint_every_s=0.01)

        assert raised.group_contains(StaleEpoch)
        assert (truth.record.latest, truth.results) == (None, {})

    async def test_a_zombie_s_delayed_commit_changes_nothing(self, place: Place) -> None:
        """It was on its way when the session was taken over: neither its result nor its boundary lands."""
        pod, truth = place.new_pod(), place.truth
        pod.sandbox.programs = {SESSION: writes("zombie")}
        commit_now = truth.commit

        async def commit_late(record: Record, seq: int, result: object) -> int:
            truth.commit = commit_now  # type: ignore[method-assign]  # once
            taken_over(truth, SESSION)
            return await commit_now(record, seq, result)  # type: ignore[arg-type]  # as it came

        truth.commit = commit_late  # type: ignore[method-assign,assignment]  # this way to the store is long
        with pytest.raises(StaleEpoch):
            await pod.hold(truth, kept_session(truth))

        assert (truth.record.epoch, truth.record.boundary, truth.results) == (3, None, {})
        assert place.store.snapshots  # saved, and nobody's

    async def test_a_lost_answer_to_a_checkpoint_does_not_cost_the_result(
        self, place: Place
    ) -> None:
        """Both writes are of one owner: the second is made on what the first one left."""
        pod, truth = place.new_pod(), place.truth
        write_now = truth.write

        async def write_unanswered(record: Record, seq: int) -> int:
            await write_now(record, seq)
            truth.write = write_now  # type: ignore[method-assign]  # once
            raise Conflict("no answer")

        async def waits(sandbox: Sandbox) -> None:
            sandbox.append("one")
            await until(lambda: truth.record.latest is not None)

        truth.write = write_unanswered  # type: ignore[method-assign]  # this store is slow, once
        pod.sandbox.programs = {SESSION: waits}
        await pod.hold(truth, kept_session(truth), checkpoint_every_s=0.01)

        assert truth.results[SESSION].status == "ok"
        assert (truth.record.latest, truth.record.boundary is not None) == (None, True)


async def test_user_code_stands_still_for_a_bounded_time(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint whose files are not read by then is dropped: they may have changed meanwhile."""
    monkeypatch.setattr(midway, "CHECKPOINT_PAUSE_S_MAX", 0.02)
    pod, truth = place.new_pod(), place.truth
    went_on = asyncio.Event()

    async def until_thawed() -> None:
        await until(lambda: "thaw" in pod.sandbox.acts)
        went_on.set()

    async def long(sandbox: Sandbox) -> None:
        sandbox.append("one")
        await went_on.wait()
        await until(lambda: pod.says[1] != "")
        place.checkpointer.on_save = None

    place.checkpointer.on_save = until_thawed
    pod.sandbox.programs = {SESSION: long}
    await pod.hold(truth, kept_session(truth), checkpoint_every_s=0.01)

    assert truth.results[SESSION].status == "ok"
    assert limits.CHECKPOINT_PAUSE_S_MAX == 2


async def test_a_snapshot_that_is_late_is_said(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With since when: what the death of the node would take grows. And no more once there is a newer one."""
    monkeypatch.setattr(midway, "CHECKPOINT_PAUSE_S_MAX", 60)
    pod, truth = place.new_pod(), place.truth
    let_go = asyncio.Event()
    said: list[str] = []

    async def long(sandbox: Sandbox) -> None:
        sandbox.append("one")
        await until(lambda: pod.says[1] != "")
        said.append(pod.says[1])
        let_go.set()
        place.checkpointer.on_save = None
        await until(lambda: truth.record.latest is not None)
        await until(lambda: pod.says[1] == "")

    async def slow() -> None:
        await let_go.wait()

    place.checkpointer.on_save = slow
    pod.sandbox.programs = {SESSION: long}
    await pod.hold(truth, kept_session(truth), checkpoint_every_s=0.3)

    assert said == ["its newest snapshot is older than 0.9 s: the next one is not done"]
    assert truth.results[SESSION].status == "ok"
