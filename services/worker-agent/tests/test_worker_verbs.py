"""Tasks that change what a session's files are: hibernate, resume, roll back; in their turn, each with its result."""

from __future__ import annotations

from typing import Any

import msgspec
from checkpointing import FIRST, Place, claimed, kept_session, writes
from holding import SESSION, FakeTruth, entry, owned

from shared import task, transitions
from shared.errors import LimitExceeded, Unavailable
from shared.workspace import SnapshotRef


def asked(number: int, what: task.Task) -> Any:
    """Return an inbox entry that asks for this."""
    return msgspec.structs.replace(entry(number), body=task.encode_task(what))


async def with_two_states(place: Place) -> SnapshotRef:
    """Let a session's first task write a line, keep that by a name, and its next one write another."""
    first, truth = place.new_pod(), place.truth
    first.sandbox.programs = {SESSION: writes("one")}
    await first.hold(truth, kept_session(truth))
    assert truth.record.boundary is not None
    place.store.named["one"] = truth.record.boundary
    second = place.new_pod()
    truth.inbox = [entry(1)]
    second.sandbox.programs = {FIRST: writes("two")}
    await second.hold(truth, woken(truth))
    assert second.sandbox.journal() == ["one", "two"]
    return place.store.named["one"]


def woken(truth: FakeTruth) -> Any:
    """Give the idle session to another worker."""
    return claimed(truth, transitions.wake(truth.record, lane="batch"))


class TestRollback:
    """The record names the older snapshot, and nobody saves what was in the pod."""

    async def test_the_next_task_begins_with_the_files_of_then(self, place: Place) -> None:
        """On another pod; this one is given back at once, unmarked, and its files are not saved any more."""
        then = await with_two_states(place)
        pod, truth = place.new_pod(), place.truth
        truth.inbox = [asked(2, task.Rollback(snapshot="one"))]
        before = len(place.checkpointer.begun)

        await pod.hold(truth, woken(truth))

        assert truth.results["task-0002"].status == "ok"
        assert (truth.record.state, truth.record.boundary) == ("idle", then)
        assert (truth.record.latest, truth.record.losses) == (None, 0)
        assert [ask.op for ask in place.checkpointer.begun[before:]] == ["retain"]
        assert pod.mark() is None
        after = place.new_pod()
        truth.inbox = [entry(3)]
        after.sandbox.programs = {"task-0003": writes("three")}
        await after.hold(truth, woken(truth))
        assert after.sandbox.journal() == ["one", "three"]

    async def test_what_follows_runs_elsewhere(self, place: Place) -> None:
        """A bound pod holds the files of later: the session is queued for another one."""
        await with_two_states(place)
        pod, truth = place.new_pod(), place.truth
        truth.inbox = [entry(2), asked(3, task.Rollback(snapshot="one")), entry(4)]
        pod.sandbox.programs = {"task-0002": writes("gone")}

        await pod.hold(truth, woken(truth))

        assert truth.record.state == "queued"
        assert "task-0004" not in truth.results
        assert pod.sandbox.journal() == ["one", "two", "gone"]
        assert truth.record.boundary == place.store.named["one"]

    async def test_no_such_snapshot_changes_nothing(self, place: Place) -> None:
        """The task fails and says why; the pod goes on with the files that it has."""
        await with_two_states(place)
        pod, truth = place.new_pod(), place.truth
        truth.inbox = [asked(2, task.Rollback(snapshot="never")), entry(3)]
        pod.sandbox.programs = {"task-0003": writes("three")}

        await pod.hold(truth, woken(truth))

        failed = truth.results["task-0002"]
        assert (failed.status, failed.reason) == ("failed", "no_snapshot")
        assert failed.error is not None
        assert "never" in failed.error.message
        assert pod.sandbox.journal() == ["one", "two", "three"]


class TestHibernate:
    """Saved, then given back at once."""

    async def test_the_pod_is_given_back_at_once(self, place: Place) -> None:
        """However long idle sessions may keep theirs; all that ran beside tasks is saved, too."""
        pod, truth = place.new_pod(), place.truth
        truth.inbox = [asked(1, task.Hibernate())]
        pod.sandbox.programs = {SESSION: writes("one")}

        await pod.hold(truth, kept_session(truth), idle_release_s=3600)

        assert truth.results[FIRST].status == "ok"
        assert truth.record.state == "idle"
        assert truth.record.boundary is not None
        assert place.store.snapshots[truth.record.boundary.id] == {"journal": "one\n"}

    async def test_what_follows_at_once_keeps_the_pod(self, place: Place) -> None:
        """It would be woken anyway."""
        pod, truth = place.new_pod(), place.truth
        truth.inbox = [asked(1, task.Hibernate()), entry(2)]
        pod.sandbox.programs = {SESSION: writes("one"), "task-0002": writes("two")}

        await pod.hold(truth, kept_session(truth))

        assert pod.sandbox.journal() == ["one", "two"]

    async def test_what_can_not_be_saved_is_not_given_up(self, place: Place) -> None:
        """The task fails with the reason, and the session keeps its pod, for what comes next."""
        pod, truth = place.new_pod(), place.truth

        async def too_much(_: Any) -> None:
            place.store.fault = LimitExceeded("workspace: f is too large")

        pod.sandbox.programs = {SESSION: writes("one"), FIRST: too_much, "task-0003": writes("two")}
        truth.inbox = [entry(1), asked(2, task.Hibernate()), entry(3)]

        await pod.hold(truth, kept_session(truth))

        failed = truth.results["task-0002"]
        assert (failed.status, failed.reason) == ("failed", "no_snapshot")
        assert failed.error is not None
        assert failed.error.message == "workspace: f is too large"
        assert pod.sandbox.journal() == ["one", "two"]

    async def test_where_nothing_is_kept_nothing_is_given_up(self, place: Place) -> None:
        """A pool that does not wait for its store: hibernating without a snapshot would lose the files."""
        pod, truth = place.new_pod(), place.truth
        truth.inbox = [asked(1, task.Hibernate()), entry(2)]
        pod.sandbox.programs = {SESSION: writes("one"), "task-0002": writes("two")}
        place.store.fault = Unavailable("the store is away")

        await pod.hold(truth, kept_session(truth), durability="relaxed")

        assert truth.results[FIRST].status == "failed"
        assert pod.sandbox.journal() == ["one", "two"]


class TestResume:
    """A worker has the session, with its files."""

    async def test_it_restores_and_runs_nothing(self, place: Place) -> None:
        """And saves nothing by itself."""
        await with_two_states(place)
        pod, truth = place.new_pod(), place.truth
        truth.inbox = [asked(2, task.Resume())]
        before = len(place.checkpointer.begun)

        await pod.hold(truth, woken(truth))

        done = truth.results["task-0002"]
        assert (done.status, done.timing.restored_ms > 0) == ("ok", True)
        assert pod.sandbox.journal() == ["one", "two"]
        ops = [(ask.op, ask.task) for ask in place.checkpointer.begun[before:]]
        assert ops == [("restore", "task-0002"), ("save", "")]


async def test_a_session_may_begin_with_its_end(place: Place) -> None:
    """A verb as a session's first task is a task like others: there is nothing to go back to, so it fails and closes."""
    pod, truth = place.new_pod(), place.truth
    held = owned(truth, task.encode_task(task.Rollback(snapshot="one")))

    await pod.hold(truth, held)

    assert truth.results[SESSION].status == "failed"
    assert truth.record.state == "closed"
