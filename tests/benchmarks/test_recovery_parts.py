"""The tracker of recoveries: what it counts as hit, noticed and mended."""

from __future__ import annotations

from recovery_parts.tracker import Tracker

from shared.messages import TaskResult, WorkspaceLost
from shared.record import Record

KEY = ("t", "s")


def record(epoch: int, owner: str | None, state: str = "running", node: str = "n") -> Record:
    """Return a record of the session."""
    return Record(
        session="s", tenant="t", pool="p", state=state, lane="batch", client_lane="batch", keep=True,
        accepted_ms=1, epoch=epoch, owner=owner, node=node if owner else None,
    )  # fmt: skip


def result(epoch: int, lost: WorkspaceLost | None = None) -> TaskResult:
    """Return a result under an epoch."""
    return TaskResult(
        task="x", session="s", tenant="t", status="ok", epoch=epoch, workspace_lost=lost
    )


def test_a_session_is_mended_with_the_first_result_under_a_higher_epoch() -> None:
    """Not with the claim, and not with a result that the victim still wrote."""
    tracker = Tracker()
    tracker.on_record(record(1, "w"), 0.0)
    (hit,) = tracker.fault("kill", 10.0, victims={"w": "x"})
    tracker.on_result(result(1), 10.1)
    tracker.on_record(record(2, None, "queued"), 10.25)
    tracker.on_record(record(3, "w2"), 10.5)
    assert (hit.detect_s, hit.recover_s) == (0.25, None)
    tracker.on_result(result(3), 12.0)
    assert hit.recover_s == 2.0
    tracker.on_result(result(4), 13.0)
    assert hit.recover_s == 2.0


def test_a_fault_hits_what_its_victims_own_and_nothing_else() -> None:
    """Sessions that nobody owns, or another worker, are not hit; nor is one whose record is newer."""
    tracker = Tracker()
    tracker.on_record(record(2, "w2"), 1.0)
    tracker.on_record(record(1, "w"), 1.1)
    assert tracker.fault("kill", 2.0, victims={"w": "x"}) == []
    assert tracker.node_of("n") == ["w2"]
    tracker.on_record(record(2, None, "idle"), 3.0)
    assert tracker.fault("kill", 4.0, victims={"w2": "x"}) == []


def test_two_faults_before_the_session_goes_on_are_each_mended_by_the_same_result() -> None:
    """The second strikes a recovery."""
    tracker = Tracker()
    tracker.on_record(record(1, "w"), 0.0)
    tracker.fault("kill", 1.0, victims={"w": "x"})
    tracker.on_record(record(3, "w2"), 1.5)
    tracker.fault("node", 2.0, victims={"w2": None})
    tracker.on_record(record(5, "w3"), 2.5)
    tracker.on_result(result(5), 4.0)
    assert [(hit.kind, hit.recover_s) for hit in tracker.hits] == [("kill", 3.0), ("node", 2.0)]
    assert [hit.kind for hit in tracker.in_task("node")] == []


def test_a_session_that_ends_has_nothing_to_go_on_with() -> None:
    """It is no recovery that never came."""
    tracker = Tracker()
    tracker.on_record(record(1, "w"), 0.0)
    (hit,) = tracker.fault("kill", 1.0, victims={"w": "x"})
    tracker.on_record(record(2, None, "cancelled"), 2.0)
    assert hit.ended
    assert tracker.in_task("kill") == []


def test_lost_workspaces_are_counted() -> None:
    """Each result that says so."""
    tracker = Tracker()
    tracker.on_result(result(1, WorkspaceLost(cause="c", epoch=1, at_ms=1)), 1.0)
    tracker.on_result(result(1), 1.0)
    assert tracker.losses == 1
