"""How the heads of a workspace move: rescues of dead pods' files, boundaries, checkpoints in mid-task, forks."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from shared import forks, heads, transitions
from shared.errors import Conflict, StaleEpoch
from shared.heads import is_interrupted
from shared.messages import Interruption, WorkspaceLost
from shared.record import Death, Hold, Origin, Record, Rescue, is_mine
from shared.workspace import Base, Latest, SnapshotRef

ORIGIN = Origin(session="session-1", tenant="acme", pool="p", lane="batch", accepted_ms=1_000)
HELD = Record(
    session="session-1", tenant="acme", pool="p", state="running", lane="recovery", client_lane="batch", keep=True,
    accepted_ms=1_000, epoch=4, owner="w1", node="n1", claimed_ms=2_000, attempt=1, first_done=True, position=7,
    tasks_done=3, last_done_ms=2_500,
)  # fmt: skip
"""A kept session in the middle of its life."""
HOLD = Hold("w1", 4)
UNSAVED = replace(HELD, checkpoint_stale_ms=2_500)
"""No snapshot holds what its tasks did."""
OLD = SnapshotRef(id="aa" * 32, pack="acme/session-1/old", at_ms=2_100)
NEW = SnapshotRef(id="bb" * 32, pack="acme/session-1/new", at_ms=2_900, lineage=1)
QUEUED = replace(HELD, state="queued", owner=None, node=None)
RESCUE = Rescue(owner="c1", node="n1", until_ms=5_000)
RESCUING = replace(QUEUED, state="rescuing", owner="c1", node="n1", rescue_until_ms=5_000)
DIED = Death(cause="process_exit", process_died=True, silent_ms=6, task="task-0008")
SILENT = Death(cause="heartbeats_missed", process_died=False, silent_ms=4_100)


class TestRescue:
    """The workspace of a pod that died is saved before anybody may claim its session."""

    def test_it_begins_with_the_revocation(self) -> None:
        """One write: the zombie is fenced, and no worker claims meanwhile. What is not saved yet is not lost yet."""
        rescuing = transitions.revoke(UNSAVED, death=DIED, now_ms=3_000, rescue=RESCUE)

        lost = Interruption(
            cause="process_exit",
            epoch=4,
            worker="w1",
            revoked_ms=3_000,
            silent_ms=6,
            since_ms=2_500,
        )
        assert rescuing == replace(
            UNSAVED, state="rescuing", owner="c1", node="n1", epoch=5, lane="recovery", claimed_ms=3_000,
            rescue_until_ms=5_000, rescue_pod="w1", deaths=1, death_task="task-0008", interruptions=(lost,),
        )  # fmt: skip
        assert not is_mine(rescuing, HOLD)
        assert is_mine(rescuing, Hold("c1", 5))

    def test_what_was_saved_in_mid_task_is_that_task_s(self) -> None:
        """`latest`, under the rescue's own epoch; the boundary stays for who runs the task again."""
        held = replace(HELD, boundary=OLD, attempt=2)
        rescuing = transitions.revoke(held, death=DIED, now_ms=3_000, rescue=RESCUE)

        rescued = transitions.rescued(rescuing, Hold("c1", 5), snapshot=NEW, whole=False)

        assert (rescued.state, rescued.owner, rescued.rescue_until_ms) == ("queued", None, 0)
        assert rescued.boundary == OLD
        assert rescued.latest == Latest(snapshot=NEW, task="task-0008", attempt=2, epoch=5)

    def test_what_was_saved_of_an_idle_session_is_its_boundary(self) -> None:
        """It holds whatever completed tasks did, also what nobody had saved."""
        death = replace(DIED, in_task=False, task="")
        rescuing = transitions.revoke(UNSAVED, death=death, now_ms=3_000, rescue=RESCUE)

        rescued = transitions.rescued(rescuing, Hold("c1", 5), snapshot=NEW, whole=True)

        assert (rescued.boundary, rescued.latest) == (NEW, None)
        assert (rescued.checkpoint_stale_ms, rescued.lost, rescued.losses) == (0, None, 0)

    def test_a_task_of_which_nothing_had_begun_was_not_interrupted(self) -> None:
        """It came in before its worker was missed: all files are the boundary, and only the death counts."""
        rescuing = transitions.revoke(UNSAVED, death=DIED, now_ms=3_000, rescue=RESCUE)
        assert is_interrupted(rescuing, "task-0008")

        rescued = transitions.rescued(rescuing, Hold("c1", 5), snapshot=NEW, whole=True)

        assert (rescued.boundary, rescued.latest, rescued.lost) == (NEW, None, None)
        assert not is_interrupted(rescued, "task-0008")
        assert (rescued.deaths, rescued.death_task) == (1, "task-0008")

    def test_a_rescue_that_found_nothing_changes_no_head(self) -> None:
        """The workspace was empty, as it always was."""
        rescuing = transitions.revoke(HELD, death=DIED, now_ms=3_000, rescue=RESCUE)

        rescued = transitions.rescued(rescuing, Hold("c1", 5), snapshot=None, whole=True)

        assert (rescued.state, rescued.boundary, rescued.latest) == ("queued", None, None)

    def test_a_rescue_that_was_given_up_has_lost_what_it_did_not_save(self) -> None:
        """Told like any other loss."""
        rescuing = transitions.revoke(
            replace(UNSAVED, boundary=OLD), death=DIED, now_ms=3_000, rescue=RESCUE
        )

        revoked = transitions.revoke(rescuing, death=SILENT, now_ms=6_000)

        loss = WorkspaceLost(cause="heartbeats_missed", epoch=5, at_ms=6_000, back_to_ms=2_100)
        assert (revoked.state, revoked.lost, revoked.losses) == ("queued", loss, 1)
        assert (revoked.checkpoint_stale_ms, revoked.boundary) == (0, OLD)

    def test_poison_is_rescued_by_nobody(self) -> None:
        """Its session has ended."""
        worn = replace(HELD, deaths=2)

        revoked = transitions.revoke(worn, death=DIED, now_ms=3_000, rescue=RESCUE)

        assert (revoked.state, revoked.owner) == ("poison", None)

    def test_a_rescue_is_not_rescued(self) -> None:
        """Its pod died long ago."""
        with pytest.raises(Conflict, match="rescuing"):
            transitions.revoke(RESCUING, death=DIED, now_ms=3_000, rescue=RESCUE)


class TestHeads:
    """How `boundary` and `latest` move."""

    def test_a_saved_task_moves_the_boundary_with_its_result(self) -> None:
        """And drops what lay in between."""
        mid = heads.checkpoint(replace(UNSAVED, boundary=OLD), HOLD, snapshot=NEW, task="task-0008")
        done = transitions.complete(mid, HOLD, inbox_seq=8, then="keep", now_ms=3_000)

        saved = heads.saved(done, NEW)

        assert (saved.boundary, saved.latest, saved.checkpoint_stale_ms) == (NEW, None, 0)

    def test_a_checkpoint_in_mid_task_leaves_the_boundary(self) -> None:
        """It names its task, attempt and epoch."""
        held = replace(HELD, boundary=OLD, attempt=3)

        mid = heads.checkpoint(held, HOLD, snapshot=NEW, task="task-0008")

        assert mid == replace(
            held, latest=Latest(snapshot=NEW, task="task-0008", attempt=3, epoch=4)
        )

    def test_what_is_not_saved_is_stale_since_the_first_such_task(self) -> None:
        """The age of what would be lost."""
        first = transitions.complete(HELD, HOLD, inbox_seq=8, then="keep", now_ms=3_000)
        second = transitions.complete(first, HOLD, inbox_seq=9, then="keep", now_ms=4_000)

        assert (first.checkpoint_stale_ms, second.checkpoint_stale_ms) == (3_000, 3_000)

    @pytest.mark.parametrize("held", [HELD, UNSAVED])
    def test_a_task_that_was_not_run_left_nothing_to_save(self, held: Record) -> None:
        """Rejected, expired: what is stale is what was before."""
        done = transitions.complete(held, HOLD, inbox_seq=8, then="keep", now_ms=3_000)

        assert heads.untouched(done, held).checkpoint_stale_ms == held.checkpoint_stale_ms

    @pytest.mark.parametrize("past", ["complete", "skip"])
    def test_progress_drops_what_was_saved_in_mid_task(self, past: str) -> None:
        """A task that has its result, whoever gave it, needs its middle no more."""
        mid = heads.checkpoint(HELD, HOLD, snapshot=NEW, task="task-0008")

        after = (
            transitions.complete(mid, HOLD, inbox_seq=8, then="keep", now_ms=3_000)
            if past == "complete"
            else transitions.skip(mid, HOLD, position=8)
        )

        assert after.latest is None

    def test_a_session_whose_files_are_saved_loses_nothing(self) -> None:
        """Idle and hibernated are one state."""
        held = replace(HELD, boundary=NEW)

        released = transitions.release(held, HOLD, position=7, now_ms=3_000)

        assert (released.state, released.boundary, released.lost) == ("idle", NEW, None)

    def test_what_a_checkpoint_may_hold_is_not_lost_yet(self) -> None:
        """Who goes on with it has all; who goes back to the boundary says what is gone."""
        mid = heads.checkpoint(UNSAVED, HOLD, snapshot=NEW, task="task-0008")

        revoked = transitions.revoke(mid, death=DIED, now_ms=3_000)

        assert (revoked.lost, revoked.checkpoint_stale_ms) == (None, 2_500)
        assert heads.lose_unsaved(revoked, cause="rolled_back", now_ms=4_000).losses == 1

    def test_a_loss_says_what_the_session_goes_back_to(self) -> None:
        """The time of its boundary; without one it goes on empty."""
        held = replace(UNSAVED, boundary=OLD)

        released = transitions.release(held, HOLD, position=7, now_ms=3_000)

        assert released.lost == WorkspaceLost(
            cause="released", epoch=4, at_ms=3_000, back_to_ms=2_100
        )
        assert released.checkpoint_stale_ms == 0

    def test_a_boundary_that_is_gone_is_a_loss(self) -> None:
        """The session goes on empty, and says so; without its `latest` it goes on with its boundary."""
        held = replace(HELD, boundary=NEW, latest=Latest(snapshot=NEW, task="", attempt=1, epoch=4))

        older = heads.lose_snapshot(held, HOLD, which="latest", cause="snapshot_lost", now_ms=3_000)
        empty = heads.lose_snapshot(
            older, HOLD, which="boundary", cause="snapshot_lost", now_ms=3_000
        )

        assert older == replace(held, latest=None)
        assert (empty.boundary, empty.latest, empty.losses) == (None, None, 1)
        assert empty.lost == WorkspaceLost(cause="snapshot_lost", epoch=4, at_ms=3_000)

    @pytest.mark.parametrize(
        ("latest", "rule", "which"),
        [
            (None, "resume", "boundary"),
            ("task-0008", "rerun", "boundary"),
            ("task-0008", "resume", "latest"),
            ("task-0008", "fail", "latest"),
            ("", "resume", "latest"),
            ("task-0007", "resume", "boundary"),
        ],
    )
    def test_a_task_begins_with_the_head_that_its_rule_says(
        self, latest: str | None, rule: heads.OnInterrupt, which: str
    ) -> None:
        """`rerun` with what was before it, the others with what is newest, if that is of the same task."""
        mid = heads.newest(QUEUED, NEW, latest) if latest is not None else QUEUED

        head = heads.head_for(replace(mid, boundary=OLD), "task-0008", rule)

        assert head == heads.Head(which, NEW if which == "latest" else OLD)  # type: ignore[arg-type]  # a parameter

    def test_a_session_that_never_saved_begins_empty(self) -> None:
        """There is nothing to restore."""
        assert heads.head_for(QUEUED, "task-0008", "resume") == heads.Head("empty")


def test_a_fork_is_idle_once_its_snapshot_is_pinned() -> None:
    """With its parent's files as its boundary; nobody runs its first task, for it has none."""
    base = Base(session="session-0", snapshot=OLD)

    forking = forks.fork(ORIGIN, base=base)
    forked = forks.forked(forking)

    assert (forking.state, forking.boundary) == ("forking", None)
    assert (forked.state, forked.boundary, forked.base) == ("idle", OLD, base)
    assert transitions.wake(forked, lane="batch").state == "queued"
    with pytest.raises(Conflict, match="forking"):
        forks.forked(transitions.end(forking, state="expired", reason="fork", now_ms=3_000))


class TestVolume:
    """Files that lie on a volume: who goes on with them waits for whom nobody saw end."""

    MAY_WRITE = replace(SILENT, may_write=True)

    def test_an_owner_whose_end_nobody_saw_is_waited_for(self) -> None:
        """It is said by the revocation, and stands until an owner has waited."""
        queued = transitions.revoke(HELD, death=self.MAY_WRITE, now_ms=3_000)
        claimed = transitions.claim(queued, owner="w2", node="n2", now_ms=3_100)
        taken = heads.take_files(claimed, Hold("w2", 6))

        assert [one.files_in_use for one in (HELD, queued, claimed, taken)] == [False, True, True, False]  # fmt: skip
        assert replace(taken, files_in_use=True) == claimed

    def test_the_death_of_who_waited_changes_nothing(self) -> None:
        """Its own end may be proven: the first one's is not."""
        queued = transitions.revoke(HELD, death=self.MAY_WRITE, now_ms=3_000)
        claimed = transitions.claim(queued, owner="w2", node="n2", now_ms=3_100)

        assert transitions.revoke(claimed, death=DIED, now_ms=3_200).files_in_use
        released = transitions.release(claimed, Hold("w2", 6), position=7, now_ms=3_200)
        assert released.files_in_use

    def test_an_owner_of_before_can_not_say_that_it_waited(self) -> None:
        """It is another one's now."""
        queued = transitions.revoke(HELD, death=self.MAY_WRITE, now_ms=3_000)
        with pytest.raises(StaleEpoch):
            heads.take_files(transitions.claim(queued, owner="w2", node="n", now_ms=1), HOLD)
