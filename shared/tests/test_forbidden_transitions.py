"""What the rules forbid raises, in every state, so that no caller can write it."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import pytest
from msgspec.structs import replace

from shared import forks, heads, transitions
from shared.errors import Conflict, StaleEpoch
from shared.record import ENDED, OWNED, Death, Hold, Record, Rescue, State, is_mine
from shared.workspace import Base, SnapshotRef

HELD = Record(
    session="session-1", tenant="acme", pool="p", state="running", lane="batch", client_lane="batch", keep=True,
    accepted_ms=1, epoch=4, owner="w1", node="n1", first_done=True, position=7,
)  # fmt: skip
HOLD = Hold("w1", 4)
QUEUED = replace(HELD, state="queued", owner=None)
IDLE = replace(HELD, state="idle", owner=None)
RESCUING = replace(HELD, state="rescuing", owner="c1")
DIED = Death(cause="process_exit", process_died=True)
RESCUE = Rescue(owner="c1", node="n1", until_ms=9)
SAVED = SnapshotRef(id="aa" * 32, pack="acme/session-1/p", at_ms=1)
BASE = Base(session="session-0", snapshot=SAVED)

Act = Callable[[Record], Record]
STATES: tuple[State, ...] = get_args(State)

ACTS: dict[str, tuple[Act, set[str]]] = {
    "claim": (lambda r: transitions.claim(r, owner="w2", node="n", now_ms=1), {"queued"}),
    "complete": (
        lambda r: transitions.complete(r, HOLD, inbox_seq=9, then="keep", now_ms=1), {"running"},
    ),
    "skip": (lambda r: transitions.skip(r, HOLD, position=9), {"running"}),
    "release": (lambda r: transitions.release(r, HOLD, position=9, now_ms=1), {"running"}),
    "take back": (lambda r: transitions.take_back(r, HELD), {"idle"}),
    "wake": (lambda r: transitions.wake(r, lane="batch"), {"idle", "waiting"}),
    "rise": (lambda r: transitions.wake(r, lane="recovery"), {"queued", "idle", "waiting"}),
    "postpone": (lambda r: transitions.postpone(r, HOLD, until_ms=9, now_ms=1), {"running"}),
    "revoke": (lambda r: transitions.revoke(r, death=DIED, now_ms=1), {"running", "rescuing"}),
    "rescue": (
        lambda r: transitions.revoke(r, death=DIED, now_ms=1, rescue=RESCUE), {"running"},
    ),
    "rescued": (lambda r: transitions.rescued(r, HOLD, snapshot=None, whole=True), {"rescuing"}),
    "checkpoint": (lambda r: heads.checkpoint(r, HOLD, snapshot=SAVED, task="t"), {"running"}),
    "lose a snapshot": (
        lambda r: heads.lose_snapshot(r, HOLD, which="boundary", cause="c", now_ms=1), {"running"},
    ),
    "forked": (lambda r: forks.forked(replace(r, base=BASE)), {"forking"}),
    "end": (
        lambda r: transitions.end(r, state="cancelled", reason="", now_ms=1),
        {"queued", "waiting", "rescuing", "forking", "idle"},
    ),
}  # fmt: skip
OWNERS_ACTS = (
    "complete", "skip", "release", "postpone", "rescued", "checkpoint", "lose a snapshot",
)  # fmt: skip


def _in(state: str) -> Record:
    owned = state in OWNED
    return replace(HELD, state=state, owner="w1" if owned else None)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("name", ACTS)
def test_what_the_rules_forbid_raises(name: str, state: State) -> None:
    """So that no caller can write it. Each act in each state."""
    act, allowed = ACTS[name]
    record = _in(state)

    if state in allowed:
        assert act(record) != record
    else:
        with pytest.raises((Conflict, StaleEpoch), match="session-1"):
            act(record)


@pytest.mark.parametrize("name", ACTS)
def test_what_has_ended_stays_as_it_is(name: str) -> None:
    """Nothing leads out of an end."""
    _, allowed = ACTS[name]

    assert not allowed & ENDED


def test_a_queued_session_only_rises() -> None:
    """Into a more urgent lane; `recovery` is the top, and what is as urgent already is left alone."""
    queued = replace(QUEUED, lane="batch")

    assert transitions.wake(queued, lane="interactive") == replace(queued, lane="interactive")
    for lane, wanted in [("batch", "batch"), ("interactive", "batch"), ("recovery", "interactive")]:
        with pytest.raises(Conflict):
            transitions.wake(replace(QUEUED, lane=lane), lane=wanted)


@pytest.mark.parametrize("name", OWNERS_ACTS)
@pytest.mark.parametrize(
    "record",
    [
        replace(HELD, epoch=5),  # the same worker, a later epoch: it was revoked in between
        replace(HELD, epoch=3),
        replace(HELD, owner="w2", epoch=5),
        replace(HELD, owner="w2"),
        QUEUED,
        IDLE,
    ],
    ids=lambda record: f"{record.state}-{record.owner}-{record.epoch}",
)
def test_a_zombie_s_acts_raise(name: str, record: Record) -> None:
    """Owner and epoch must both be the record's."""
    act, _ = ACTS[name]
    if name == "rescued":
        record = replace(record, state="rescuing" if record.owner else record.state)

    with pytest.raises(StaleEpoch, match=r"w1 acted under epoch 4"):
        act(record)


@pytest.mark.parametrize("name", ACTS)
def test_no_act_lets_an_epoch_or_a_position_go_back(name: str) -> None:
    """And whoever becomes an owner gets an epoch of its own, but for who takes its own session back."""
    act, allowed = ACTS[name]
    for state in allowed:
        before = _in(state)
        after = act(before)

        assert after.epoch >= before.epoch
        assert after.position >= before.position
        assert (after.owner is not None) == (after.state in OWNED)
        if after.owner not in (None, before.owner) and name != "take back":
            assert after.epoch == before.epoch + 1


@pytest.mark.parametrize(
    ("record", "hold", "mine"),
    [
        (HELD, HOLD, True),
        (RESCUING, Hold("c1", 4), True),
        (HELD, Hold("w1", 3), False),
        (HELD, Hold("w2", 4), False),
        (QUEUED, HOLD, False),
        (replace(QUEUED, owner="w1"), HOLD, False),
        (None, HOLD, False),
    ],
)
def test_a_session_is_mine_by_state_owner_and_epoch(
    record: Record | None, hold: Hold, mine: bool
) -> None:
    """All three."""
    assert is_mine(record, hold) is mine


@pytest.mark.parametrize(
    "now",
    [
        replace(IDLE, epoch=5),
        replace(IDLE, epoch=3),
        replace(QUEUED, epoch=4),
        replace(HELD, owner="w2", epoch=5),
        replace(IDLE, state="closed"),
    ],
    ids=lambda now: f"{now.state}-{now.epoch}",
)
def test_a_session_that_moved_on_is_not_taken_back(now: Record) -> None:
    """Only what is idle under one's own epoch."""
    with pytest.raises(Conflict):
        transitions.take_back(now, HELD)
