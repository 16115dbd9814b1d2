"""Each transition of the record: what it changes, what it keeps, and when it is forbidden."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from shared import transitions
from shared.errors import Conflict
from shared.messages import Interruption, WorkspaceLost
from shared.record import Death, Hold, Origin, Record, is_mine

ORIGIN = Origin(session="session-1", tenant="acme", pool="p", lane="batch", accepted_ms=1_000)
CREATED = Record(
    session="session-1", tenant="acme", pool="p", state="running", lane="batch", client_lane="batch", keep=False,
    accepted_ms=1_000, epoch=1, owner="w1", node="n1", claimed_ms=2_000, attempt=1,
)  # fmt: skip
FIRST = Hold("w1", 1)

HELD = replace(
    CREATED, epoch=4, keep=True, first_done=True, position=7, tasks_done=3, last_done_ms=2_500, lane="recovery",
)  # fmt: skip
"""A kept session in the middle of its life."""
HOLD = Hold("w1", 4)
UNSAVED = replace(HELD, checkpoint_stale_ms=2_500)
"""No snapshot holds what its tasks did."""
QUEUED = replace(HELD, state="queued", owner=None, node=None)
IDLE = replace(QUEUED, state="idle", attempt=0, lane="batch")
WAITING = replace(QUEUED, state="waiting", wake_at_ms=9_000)
RESCUING = replace(QUEUED, state="rescuing", owner="c1", node="n1", rescue_until_ms=5_000)
LOST = WorkspaceLost(cause="process_exit", epoch=3, at_ms=2_400)
DIED = Death(cause="process_exit", process_died=True, silent_ms=6, task="task-0008")
SILENT = Death(cause="heartbeats_missed", process_died=False, silent_ms=4_100)


def test_create_is_owned_from_its_first_moment() -> None:
    """Running under epoch 1, by the worker that pulled the message; whether it is kept is not known yet."""
    assert transitions.create(ORIGIN, owner="w1", node="n1", now_ms=2_000) == CREATED


def test_claim_gives_a_new_owner_a_new_epoch() -> None:
    """Everything else stays, the count of attempts grows."""
    claimed = transitions.claim(replace(QUEUED, lost=LOST), owner="w2", node="n2", now_ms=3_000)

    assert claimed == replace(
        HELD, lost=LOST, owner="w2", node="n2", epoch=5, claimed_ms=3_000, attempt=2
    )


class TestComplete:
    """A task's result and the record, in one batch."""

    def test_the_first_task_of_a_kept_session(self) -> None:
        """The session goes on under the same owner and epoch."""
        done = transitions.complete(CREATED, FIRST, inbox_seq=None, then="keep", now_ms=3_000)

        assert done == replace(
            CREATED, keep=True, first_done=True, tasks_done=1, last_done_ms=3_000,
            checkpoint_stale_ms=3_000,
        )  # fmt: skip

    def test_a_one_shot_is_closed_with_its_task(self) -> None:
        """Nobody owns it any more."""
        done = transitions.complete(CREATED, FIRST, inbox_seq=None, then="close", now_ms=3_000)

        assert done == replace(
            CREATED, state="closed", owner=None, node=None, first_done=True, tasks_done=1, last_done_ms=3_000,
            ended_ms=3_000, end_reason="closed",
        )  # fmt: skip

    def test_an_inbox_task_moves_the_position(self) -> None:
        """To its own sequence; sequences have gaps."""
        done = transitions.complete(HELD, HOLD, inbox_seq=12, then="keep", now_ms=3_000)

        assert done == replace(
            UNSAVED, position=12, tasks_done=4, last_done_ms=3_000, checkpoint_stale_ms=3_000
        )

    def test_progress_forgives_and_what_was_lost_is_told_once(self) -> None:
        """Deaths, interruptions and attempts belong to a task; its result carries the notice of the loss."""
        past = Interruption(cause="process_exit", epoch=3, worker="w0", revoked_ms=2_400)
        worn = replace(
            HELD, deaths=2, death_task="task-0008", attempt=3, interruptions=(past,), lost=LOST, last_loss=LOST,
            losses=1,
        )  # fmt: skip

        done = transitions.complete(worn, HOLD, inbox_seq=8, then="keep", now_ms=3_000)

        assert done == replace(
            HELD, position=8, tasks_done=4, last_done_ms=3_000, last_loss=LOST, losses=1, attempt=1,
            checkpoint_stale_ms=3_000,
        )  # fmt: skip

    @pytest.mark.parametrize(
        ("record", "hold", "inbox_seq"),
        [
            (CREATED, FIRST, 8),  # its turn comes after the first task's
            (HELD, HOLD, None),  # the first task has its result
            (HELD, HOLD, 7),  # so has this one
            (HELD, HOLD, 3),
        ],
    )
    def test_no_task_completes_twice_or_before_its_turn(
        self, record: Record, hold: Hold, inbox_seq: int | None
    ) -> None:
        """The record says which tasks are behind it."""
        with pytest.raises(Conflict, match="session-1"):
            transitions.complete(record, hold, inbox_seq=inbox_seq, then="keep", now_ms=3_000)


def test_skip_moves_the_position_and_forgives() -> None:
    """Past what others have ended, which is progress; never back."""
    worn = replace(HELD, deaths=2, death_task="task-0008", attempt=3)

    assert transitions.skip(worn, HOLD, position=9) == replace(HELD, position=9)
    assert transitions.skip(worn, HOLD, position=7) == worn
    assert transitions.skip(worn, HOLD, position=2) == worn


class TestRelease:
    """Giving a session up, and taking it back."""

    def test_an_idle_session_has_no_owner_and_no_workspace(self) -> None:
        """It waits in its client's class next time, and its next task will say what was lost."""
        released = transitions.release(UNSAVED, HOLD, position=9, now_ms=3_000)

        loss = WorkspaceLost(cause="released", epoch=4, at_ms=3_000)
        assert released == replace(
            IDLE, position=9, lost=loss, last_loss=loss, losses=1, claimed_ms=2_000
        )

    def test_the_cause_of_a_release_is_the_cause_of_the_loss(self) -> None:
        """A sandbox that broke down is no idle session."""
        released = transitions.release(
            UNSAVED, HOLD, position=7, now_ms=3_000, cause="sandbox_lost"
        )

        assert released.lost == WorkspaceLost(cause="sandbox_lost", epoch=4, at_ms=3_000)

    def test_a_loss_that_was_not_told_is_kept(self) -> None:
        """The owner ran nothing: what is missing is what was lost before."""
        held = replace(HELD, lost=LOST, last_loss=LOST, losses=1)

        released = transitions.release(held, HOLD, position=7, now_ms=3_000)

        assert (released.lost, released.last_loss, released.losses) == (LOST, LOST, 1)

    def test_a_session_taken_back_has_its_workspace(self) -> None:
        """Same owner, same epoch, nothing lost; only the position has moved on."""
        released = transitions.release(UNSAVED, HOLD, position=9, now_ms=3_000)

        assert transitions.take_back(released, UNSAVED) == replace(UNSAVED, position=9)

    def test_a_session_taken_back_keeps_a_loss_that_was_not_told(self) -> None:
        """The notice is due as before."""
        before = replace(HELD, lost=LOST, last_loss=LOST, losses=1)
        released = transitions.release(before, HOLD, position=7, now_ms=3_000)

        assert transitions.take_back(released, before) == before


def test_wake_lets_an_idle_session_wait_in_a_class() -> None:
    """Same epoch: nobody owns it yet."""
    assert transitions.wake(IDLE, lane="interactive") == replace(
        QUEUED, lane="interactive", attempt=0
    )
    assert transitions.wake(WAITING, lane="batch") == replace(QUEUED, lane="batch")


def test_postpone_gives_the_pod_up_and_says_so() -> None:
    """The next attempt finds an empty workspace."""
    postponed = transitions.postpone(UNSAVED, HOLD, until_ms=9_000, now_ms=3_000)

    loss = WorkspaceLost(cause="postponed", epoch=4, at_ms=3_000)
    assert postponed == replace(WAITING, lost=loss, last_loss=loss, losses=1)


class TestRevoke:
    """Giving an owner up."""

    def test_the_zombie_s_epoch_is_over(self) -> None:
        """Queued in `recovery`; who was lost, why, and how long it was silent stands in the record."""
        revoked = transitions.revoke(UNSAVED, death=DIED, now_ms=3_000)

        loss = WorkspaceLost(cause="process_exit", epoch=4, at_ms=3_000)
        lost = Interruption(
            cause="process_exit",
            epoch=4,
            worker="w1",
            revoked_ms=3_000,
            silent_ms=6,
            since_ms=2_500,
        )
        assert revoked == replace(
            QUEUED, epoch=5, lane="recovery", deaths=1, death_task="task-0008", interruptions=(lost,), lost=loss,
            last_loss=loss, losses=1,
        )  # fmt: skip
        assert not is_mine(revoked, HOLD)

    def test_a_session_that_did_nothing_yet_has_lost_nothing(self) -> None:
        """Its first task starts again in an empty workspace, as it did before."""
        revoked = transitions.revoke(CREATED, death=SILENT, now_ms=3_000)

        assert (revoked.lost, revoked.losses, len(revoked.interruptions)) == (None, 0, 1)

    def test_a_second_loss_before_the_first_was_told_is_the_same_loss(self) -> None:
        """The next owner ran nothing to its end: it had nothing to lose."""
        held = replace(HELD, lost=LOST, last_loss=LOST, losses=1)

        revoked = transitions.revoke(held, death=DIED, now_ms=3_000)

        assert (revoked.lost, revoked.last_loss, revoked.losses) == (LOST, LOST, 1)

    def test_three_deaths_of_the_process_in_one_task_are_poison(self) -> None:
        """The third one ends the session."""
        first = transitions.revoke(HELD, death=DIED, now_ms=3_000)
        again = transitions.claim(first, owner="w2", node="n", now_ms=3_000)
        second = transitions.revoke(again, death=DIED, now_ms=3_000)
        again = transitions.claim(second, owner="w3", node="n", now_ms=3_000)
        third = transitions.revoke(again, death=DIED, now_ms=3_000)

        states = [(record.state, record.deaths) for record in (first, second, third)]
        assert states == [("queued", 1), ("queued", 2), ("poison", 3)]
        assert (third.ended_ms, third.end_reason, third.owner) == (3_000, "deaths", None)
        assert [past.worker for past in third.interruptions] == ["w1", "w2", "w3"]

    def test_silence_is_never_poison(self) -> None:
        """A lost node or a partition says nothing about the task."""
        record = replace(HELD, deaths=2)
        for _ in range(20):
            record = transitions.revoke(record, death=SILENT, now_ms=3_000)
            assert (record.state, record.deaths) == ("queued", 2)
            record = replace(record, state="running", owner="w1")

        assert len(record.interruptions) == 8  # the newest; a record stays small
        assert record.interruptions[-1].epoch == HELD.epoch + 19

    def test_deaths_in_another_task_do_not_count(self) -> None:
        """The one before was cancelled after it had killed its worker twice."""
        worn = replace(HELD, deaths=2, death_task="task-0007", interruptions=(_interruption(3),))

        revoked = transitions.revoke(worn, death=DIED, now_ms=3_000)

        assert (revoked.state, revoked.deaths, revoked.death_task) == ("queued", 1, "task-0008")
        assert [past.epoch for past in revoked.interruptions] == [4]

    @pytest.mark.parametrize(("before", "task"), [("", "task-0008"), ("task-0008", ""), ("", "")])
    def test_a_task_that_is_not_known_is_taken_for_the_same(self, before: str, task: str) -> None:
        """Poison must come even where nobody could read the inbox."""
        worn = replace(HELD, deaths=2, death_task=before)

        revoked = transitions.revoke(worn, death=replace(DIED, task=task), now_ms=3_000)

        assert revoked.state == "poison"

    def test_a_death_without_a_task_counts_for_none(self) -> None:
        """An idle session whose pod dies again and again is not poison, and its next task was never interrupted."""
        worn = replace(UNSAVED, deaths=2, death_task="task-0007", interruptions=(_interruption(3),))

        revoked = transitions.revoke(
            worn, death=replace(DIED, in_task=False, task=""), now_ms=3_000
        )

        assert (revoked.state, revoked.deaths, revoked.death_task) == ("queued", 0, "")
        assert revoked.interruptions == ()
        assert revoked.lost == WorkspaceLost(cause="process_exit", epoch=4, at_ms=3_000)

    def test_a_dead_checkpointer_counts_for_nothing(self) -> None:
        """No task ran; what was lost was lost with the worker."""
        rescuing = replace(RESCUING, deaths=2, lost=LOST, last_loss=LOST, losses=1)

        revoked = transitions.revoke(rescuing, death=DIED, now_ms=3_000)

        assert revoked == replace(
            rescuing, state="queued", owner=None, node=None, epoch=5, lane="recovery", rescue_until_ms=0
        )  # fmt: skip


def _interruption(epoch: int) -> Interruption:
    return Interruption(cause="process_exit", epoch=epoch, worker="w0", revoked_ms=1)


def test_an_end_from_outside_raises_the_epoch() -> None:
    """Whoever claims by an older view fails."""
    ended = transitions.end(QUEUED, state="cancelled", reason="requested", now_ms=3_000)

    assert ended == replace(
        QUEUED, state="cancelled", epoch=5, ended_ms=3_000, end_reason="requested"
    )


def test_a_session_can_end_before_it_was_created() -> None:
    """A record that kills the later publish under its id."""
    ended = transitions.ended_unborn(ORIGIN, state="expired", reason="deadline", now_ms=3_000)

    assert ended == Record(
        session="session-1", tenant="acme", pool="p", state="expired", lane="batch", client_lane="batch",
        keep=False, accepted_ms=1_000, ended_ms=3_000, end_reason="deadline",
    )  # fmt: skip
