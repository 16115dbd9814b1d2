"""A session's files between pod and snapshots: when they are saved and restored, and what becomes of them otherwise."""

from __future__ import annotations

import asyncio
import time
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
from shared.errors import LimitExceeded, NotFound, Unavailable
from shared.testing.plugin import Connect
from shared.testing.wait import until
from shared.workspace import Mark


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


class TestRestore:
    """What is in the way of a restore."""

    async def saved_session(self, place: Place) -> None:
        """Leave an idle session with a boundary."""
        pod = place.new_pod()
        pod.sandbox.programs = {SESSION: writes("one")}
        await pod.hold(place.truth, kept_session(place.truth))
        place.truth.inbox = [entry(1)]

    async def test_it_waits_for_the_store_and_says_so(self, place: Place) -> None:
        """`restoring`, with reason; then the task runs."""
        await self.saved_session(place)
        truth, pod = place.truth, place.new_pod()
        place.store.fault = Unavailable("the store does not answer")
        woken = transitions.wake(truth.record, lane="batch")
        holding = asyncio.ensure_future(pod.hold(truth, claimed(truth, woken)))
        await until(lambda: pod.says[1] != "")
        assert pod.says == ("restoring", "the store does not answer")
        assert FIRST not in truth.results
        place.store.fault = None
        await holding

        assert truth.results[FIRST].status == "ok"
        assert pod.sandbox.journal() == ["one"]

    async def test_a_worker_that_is_to_leave_gives_the_session_back(self, place: Place) -> None:
        """Another one waits for the store in its place; nothing is saved over the boundary."""
        await self.saved_session(place)
        truth, pod = place.truth, place.new_pod()
        boundary = truth.record.boundary
        place.store.fault = Unavailable("the store does not answer")
        woken = transitions.wake(truth.record, lane="batch")
        holding = asyncio.ensure_future(pod.hold(truth, claimed(truth, woken)))
        await until(lambda: pod.says[1] != "")
        pod.leave()
        await holding

        assert (truth.record.state, truth.record.boundary) == ("waiting", boundary)
        assert (FIRST in truth.results, pod.mark()) == (False, None)

    async def test_a_boundary_that_is_missing_once_is_looked_for_again(self, place: Place) -> None:
        """A read that went wrong costs a moment, not the session's files."""
        await self.saved_session(place)
        truth, pod = place.truth, place.new_pod()
        place.store.fault = NotFound("there is no such pack")
        woken = transitions.wake(truth.record, lane="batch")
        holding = asyncio.ensure_future(pod.hold(truth, claimed(truth, woken)))
        await until(lambda: pod.says[1] != "" or holding.done())
        place.store.fault = None
        await holding

        assert (truth.results[FIRST].status, truth.record.losses) == ("ok", 0)
        assert pod.sandbox.journal() == ["one"]

    async def test_a_boundary_that_is_gone_is_told_and_never_replaced_in_silence(
        self, place: Place
    ) -> None:
        """This pod runs nothing; the next one begins empty and says what was lost."""
        await self.saved_session(place)
        truth, pod = place.truth, place.new_pod()
        place.store.snapshots.clear()
        woken = transitions.wake(truth.record, lane="batch")
        await pod.hold(truth, claimed(truth, woken))
        assert (truth.record.state, truth.record.losses) == ("waiting", 1)
        assert FIRST not in truth.results

        after = place.new_pod()
        again = transitions.wake(truth.record, lane="batch")
        await after.hold(truth, claimed(truth, again))

        lost = truth.results[FIRST].workspace_lost
        assert lost is not None
        assert (lost.cause, lost.back_to_ms) == ("snapshot_lost", 0)

    async def test_a_task_past_its_deadline_waits_no_longer(self, place: Place) -> None:
        """It expires, and the boundary stays."""
        await self.saved_session(place)
        truth, pod = place.truth, place.new_pod()
        boundary = truth.record.boundary
        due = task.encode_task(task.Command(argv=("true",), deadline_s=0.3))
        now = msgspec.structs.replace(entry(1), body=due, accepted_ms=int(time.time() * 1000))
        truth.inbox = [now]
        place.store.fault = Unavailable("the store does not answer")
        woken = transitions.wake(truth.record, lane="batch")
        await pod.hold(truth, claimed(truth, woken))

        assert truth.results[FIRST].status == "expired"
        assert (truth.record.boundary, truth.record.losses) == (boundary, 0)

    async def test_a_task_that_is_cancelled_waits_no_longer(self, place: Place) -> None:
        """It ends at once as `cancelled`, the boundary stays, and the next task waits in its turn."""
        await self.saved_session(place)
        truth, pod = place.truth, place.new_pod()
        truth.inbox = [entry(1), entry(2)]
        place.store.fault = Unavailable("the store does not answer")
        woken = transitions.wake(truth.record, lane="batch")
        holding = asyncio.ensure_future(pod.hold(truth, claimed(truth, woken)))
        await until(lambda: pod.says == ("restoring", "the store does not answer"))
        assert pod.files is not None
        pod.files.cancel()
        await until(lambda: FIRST in truth.results)
        assert truth.results[FIRST].status == "cancelled"
        place.store.fault = None
        await holding

        assert truth.results["task-0002"].status == "ok"
        assert pod.sandbox.journal() == ["one"]
