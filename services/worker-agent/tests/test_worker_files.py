"""A session's files between pod and snapshots: when they are saved and restored, and what becomes of them otherwise."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
from checkpointing import (
    FIRST,
    Checkpointer,
    Place,
    Pod,
    Sandbox,
    Store,
    claimed,
    kept_session,
    writes,
)  # fmt: skip
from holding import SESSION, FakeTruth, body, entry, owned

from shared import task, transitions
from shared.errors import LimitExceeded, Unavailable
from shared.testing.plugin import Connect
from shared.testing.wait import until
from shared.traces.span import Span
from shared.workspace import Mark


class Unheard:
    """Where spans go that nobody looks at."""

    async def tell(self, spans: tuple[Span, ...]) -> None:
        """Take them."""


class TestBetweenTasks:
    """Each result is committed with the snapshot that holds what its task did."""

    async def test_a_kept_session_s_files_are_saved_before_each_result(self, place: Place) -> None:
        """The record's boundary holds them; user code stood still meanwhile."""
        pod, truth = place.new_pod(), place.truth
        truth.inbox = [entry(1)]
        pod.sandbox.programs = {SESSION: writes("one"), FIRST: writes("two")}

        await pod.hold(truth, kept_session(truth))

        assert truth.record.state == "idle"
        assert truth.record.boundary is not None
        assert place.store.snapshots[truth.record.boundary.id] == {"journal": "one\ntwo\n"}
        assert (truth.record.checkpoint_stale_ms, truth.record.losses) == (0, 0)
        first, second, at_release = place.checkpointer.begun
        assert (first.snapshot, second.snapshot and second.snapshot.lineage) == (None, 0)
        assert at_release.snapshot == truth.record.boundary
        assert pod.sandbox.acts == ["freeze", "thaw"] * 3

    async def test_a_one_shot_asks_for_nothing(self, place: Place) -> None:
        """Its workspace ends with it."""
        pod, truth = place.new_pod(), place.truth
        pod.sandbox.programs = {SESSION: writes("one")}

        await pod.hold(truth, owned(truth, body(keep=False)))

        assert truth.results[SESSION].status == "ok"
        assert (place.checkpointer.asks, pod.sandbox.acts) == ([], [])

    async def test_the_next_worker_begins_with_what_was_saved(self, place: Place) -> None:
        """Restored before its first task, and not before: an idle session costs nothing."""
        first, truth = place.new_pod(), place.truth
        first.sandbox.programs = {SESSION: writes("one")}
        await first.hold(truth, kept_session(truth))
        second = place.new_pod()
        truth.inbox = [entry(1)]
        second.sandbox.programs = {FIRST: writes("two")}

        await second.hold(truth, claimed(truth, transitions.wake(truth.record, lane="batch")))

        assert second.sandbox.journal() == ["one", "two"]
        assert truth.results[FIRST].timing.restored_ms > 0
        assert [ask.op for ask in place.checkpointer.begun] == [
            "save",
            "save",
            "restore",
            "save",
            "save",
        ]

    async def test_the_mark_names_a_task_before_its_code_runs(self, place: Place) -> None:
        """And none once its result is stored: whoever rescues the workspace goes by that."""
        pod, truth = place.new_pod(), place.truth
        truth.inbox = [entry(1)]
        seen: list[Mark | None] = []

        async def looks(_sandbox: Sandbox) -> None:
            seen.append(pod.mark())

        pod.sandbox.programs = {FIRST: looks}
        await pod.hold(truth, kept_session(truth))

        whole = Mark(session=SESSION, epoch=1)
        assert (seen, pod.mark()) == ([msgspec.structs.replace(whole, task=FIRST)], whole)

    async def test_what_the_pool_excludes_is_said_to_whoever_saves(self, place: Place) -> None:
        """To the checkpointer by the ask, and by the mark for the day when this worker is dead."""
        pod, truth = place.new_pod(), place.truth
        pod.workspaces._exclude = ("*.pyc",)
        pod.sandbox.programs = {SESSION: writes("one")}

        await pod.hold(truth, kept_session(truth))

        mark = pod.mark()
        assert mark is not None
        assert {ask.exclude for ask in place.checkpointer.begun} == {mark.exclude} == {("*.pyc",)}

    async def test_a_job_belongs_to_the_attempt_s_trace(self, place: Place) -> None:
        """As long as that is kept."""
        pod, truth = place.new_pod(), place.truth
        pod.sandbox.programs = {SESSION: writes("one")}
        held = kept_session(truth)

        await pod.hold(truth, held, spans=Unheard())

        asked = {ask.traceparent for ask in place.checkpointer.begun}
        assert held.trace is not None
        assert asked == {held.trace.traceparent}

    async def test_a_read_saves_nothing(self, place: Place) -> None:
        """It is answered at once, and changes no file."""
        pod, truth = place.new_pod(), place.truth
        read = task.encode_task(task.ReadFile(path="f"))
        truth.inbox = [msgspec.structs.replace(entry(1), body=read)]

        await pod.hold(truth, kept_session(truth))

        assert [ask.task for ask in place.checkpointer.begun] == [SESSION, ""]
        assert truth.record.checkpoint_stale_ms == 0

    async def test_a_task_that_was_ended_by_others_leaves_nothing_behind(
        self, place: Place
    ) -> None:
        """Cancelled past its owner: the session goes on with the re-read record's boundary, elsewhere."""
        pod, truth = place.new_pod(), place.truth
        truth.inbox = [entry(1)]

        async def cancelled_meanwhile(sandbox: Sandbox) -> None:
            sandbox.append("two")
            first = truth.results[SESSION]
            truth.results[FIRST] = msgspec.structs.replace(first, task=FIRST, status="cancelled")

        pod.sandbox.programs = {SESSION: writes("one"), FIRST: cancelled_meanwhile}
        await pod.hold(truth, kept_session(truth))

        assert (truth.record.state, truth.record.position) == ("idle", 1)
        assert truth.record.boundary is not None
        assert place.store.snapshots[truth.record.boundary.id] == {"journal": "one\n"}
        assert pod.mark() is None  # nobody may rescue that


class TestTheStoreIsDown:
    """What has run is not lost, and not told before it is safe."""

    async def test_a_finished_task_stays_saving_and_says_why(self, place: Place) -> None:
        """Its result and the next task wait until the store is back."""
        pod, truth = place.new_pod(), place.truth
        truth.inbox = [entry(1)]
        pod.sandbox.programs = {SESSION: writes("one"), FIRST: writes("two")}
        place.store.fault = Unavailable("the store does not answer")

        holding = asyncio.ensure_future(pod.hold(truth, kept_session(truth)))
        await until(lambda: len(place.checkpointer.begun) >= 3)
        assert pod.says == ("saving", "the store does not answer")
        assert pod.files is not None
        assert pod.files.reason[1] > 0
        assert (truth.results, pod.sandbox.journal()) == ({}, ["one"])
        place.store.fault = None
        await holding

        assert [result.status for result in truth.results.values()] == ["ok", "ok"]
        assert (pod.says[1], truth.record.checkpoint_stale_ms) == ("", 0)
        assert len({ask.job for ask in place.checkpointer.begun}) == len(place.checkpointer.begun)

    async def test_a_relaxed_pool_commits_without(self, place: Place) -> None:
        """The result says why; the record says since when; the loss is told when the pod goes."""
        pod, truth = place.new_pod(), place.truth
        pod.sandbox.programs = {SESSION: writes("one")}
        place.store.fault = Unavailable("the store does not answer")

        await pod.hold(truth, kept_session(truth), durability="relaxed")

        unsaved = truth.results[SESSION].unsaved
        assert unsaved is not None
        assert unsaved.message == "the store does not answer"
        assert (truth.record.state, truth.record.losses) == ("idle", 1)

    async def test_a_relaxed_pool_saves_once_the_store_is_back(self, place: Place) -> None:
        """With the next task, and then nothing is stale any more."""
        pod, truth = place.new_pod(), place.truth
        truth.inbox = [entry(1)]
        place.store.fault = Unavailable("the store does not answer")

        async def store_is_back(sandbox: Sandbox) -> None:
            assert truth.record.checkpoint_stale_ms > 0
            sandbox.append("two")
            place.store.fault = None

        pod.sandbox.programs = {SESSION: writes("one"), FIRST: store_is_back}
        await pod.hold(truth, kept_session(truth), durability="relaxed")

        assert (truth.record.checkpoint_stale_ms, truth.record.losses) == (0, 0)
        assert truth.results[FIRST].unsaved is None

    async def test_files_that_pass_a_limit_are_not_waited_for(self, place: Place) -> None:
        """They will never fit: the result says which limit, and what is saved stays what it was."""
        pod, truth = place.new_pod(), place.truth
        place.store.fault = LimitExceeded("workspace: a/b is larger than 32 GiB")

        await pod.hold(truth, kept_session(truth))

        unsaved = truth.results[SESSION].unsaved
        assert unsaved is not None
        assert (unsaved.code, "a/b" in unsaved.message) == ("limit_exceeded", True)

    async def test_a_checkpointer_that_comes_back_is_asked_for_the_same_job(
        self, connect: Connect, tmp_path: Path
    ) -> None:
        """Nobody heard the first ask; the job has its id from then on."""
        truth, pod = FakeTruth(), Pod(tmp_path, await connect(name="worker"))
        checkpointer = Checkpointer(Store(), tmp_path)
        holding = asyncio.ensure_future(pod.hold(truth, kept_session(truth)))
        await until(lambda: pod.says == ("saving", "the checkpointer of its node does not answer"))
        await checkpointer.serve(await connect(name="late"))
        await holding

        assert truth.results[SESSION].status == "ok"
        assert checkpointer.begun[0].job.endswith("-0001")
