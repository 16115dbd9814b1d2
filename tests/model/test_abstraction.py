"""The model's records are real ones made finite: the transitions cannot tell the difference."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.model.records import abstracted

from shared import heads, transitions
from shared.errors import Conflict, StaleEpoch
from shared.messages import Interruption, WorkspaceLost
from shared.record import Death, Hold, Record, Rescue, State
from shared.workspace import Latest, SnapshotRef

EPOCH = 5
STATES: list[State] = ["queued", "running", "rescuing", "idle", "closed", "cancelled"]

losses = st.builds(
    WorkspaceLost, cause=st.text(max_size=3), epoch=st.integers(1, 4), at_ms=st.just(0)
)
interruptions = st.builds(
    Interruption, cause=st.text(max_size=3), epoch=st.integers(1, 4), worker=st.just("w0"),
    revoked_ms=st.just(0),
)  # fmt: skip


OLD = SnapshotRef(id="aa" * 32, pack="acme/session-1/old", at_ms=1)
NEW = SnapshotRef(id="bb" * 32, pack="acme/session-1/new", at_ms=2)
RESCUE = Rescue(owner="c1", node="n", until_ms=0)
latest = st.builds(
    Latest, snapshot=st.just(OLD), task=st.sampled_from(["", "1", "2"]), attempt=st.integers(0, 3),
    epoch=st.integers(1, 4),
)  # fmt: skip


@st.composite
def records(draw: st.DrawFn) -> Record:
    """Return any record that the protocol may meet, history and all."""
    state = draw(st.sampled_from(STATES))
    owned = state in ("running", "rescuing")
    lost = draw(st.none() | losses)
    return Record(
        session="session-1",
        tenant="acme",
        pool="p",
        state=state,
        lane=draw(st.sampled_from(["recovery", "interactive", "batch"])),
        client_lane="interactive",
        keep=draw(st.booleans()),
        accepted_ms=1,
        epoch=EPOCH,
        owner=draw(st.sampled_from(["w1", "w2"])) if owned else None,
        first_done=draw(st.booleans()) or lost is not None,
        position=draw(st.integers(0, 3)),
        deaths=draw(st.integers(0, 2)),
        death_task=draw(st.sampled_from(["", "1", "2"])),
        attempt=draw(st.integers(0, 9)),
        interruptions=tuple(draw(st.lists(interruptions, max_size=9))),
        lost=lost,
        boundary=draw(st.none() | st.just(OLD)),
        latest=draw(st.none() | latest),
        checkpoint_stale_ms=draw(st.integers(0, 3)),
        losses=draw(st.integers(0, 3)),
        last_loss=draw(st.none() | losses),
        tasks_done=draw(st.integers(0, 9)),
        files_in_use=draw(st.booleans()),
        traceparent=draw(st.text(max_size=3)),
        tracestate=draw(st.text(max_size=3)),
    )


def _owned(epoch: int) -> Record:
    return Record(
        session="session-1", tenant="acme", pool="p", state="running", lane="", client_lane="interactive",
        keep=False, accepted_ms=1, epoch=epoch, owner="w1", position=1, first_done=True,
    )  # fmt: skip


def _revoke(process_died: bool, in_task: bool, task: str) -> Callable[[Record, int], Record]:
    death = Death(cause="c", process_died=process_died, in_task=in_task, task=task)
    return lambda record, _: transitions.revoke(record, death=death, now_ms=1)


ACTS: dict[str, Callable[[Record, int], Record]] = {
    "claim": lambda record, _: transitions.claim(record, owner="w2", node="n", now_ms=1),
    "complete first": lambda record, epoch: transitions.complete(
        record, Hold("w1", epoch), inbox_seq=None, then="close", now_ms=1
    ),
    "complete": lambda record, epoch: transitions.complete(
        record, Hold("w1", epoch), inbox_seq=3, then="keep", now_ms=1
    ),
    "release": lambda record, epoch: transitions.release(
        record, Hold("w1", epoch), position=2, now_ms=1
    ),
    "take back": lambda record, epoch: transitions.take_back(record, _owned(epoch)),
    "wake": lambda record, _: transitions.wake(record, lane="batch"),
    "rise": lambda record, _: transitions.wake(record, lane="interactive"),
    "revoke silent": _revoke(False, True, ""),
    "revoke dead": _revoke(True, True, "2"),
    "revoke idle": _revoke(True, False, ""),
    "revoke what may write on": lambda record, _: transitions.revoke(
        record, death=Death(cause="c", process_died=False, may_write=True), now_ms=1
    ),
    "take the files": lambda record, epoch: heads.take_files(record, Hold("w1", epoch)),
    "rescue": lambda record, _: transitions.revoke(
        record, death=Death(cause="c", process_died=True), now_ms=1, rescue=RESCUE
    ),
    "rescued in part": lambda record, epoch: transitions.rescued(
        record, Hold("w1", epoch), snapshot=NEW, whole=False
    ),
    "rescued whole": lambda record, epoch: transitions.rescued(
        record, Hold("w1", epoch), snapshot=NEW, whole=True
    ),
    "rescued nothing": lambda record, epoch: transitions.rescued(
        record, Hold("w1", epoch), snapshot=None, whole=True
    ),
    "checkpoint": lambda record, epoch: heads.checkpoint(
        record, Hold("w1", epoch), snapshot=NEW, task="2"
    ),
    "saved": lambda record, _: heads.saved(record, NEW),
    "nothing saved": lambda record, _: heads.saved(record, None),
    "end": lambda record, _: transitions.end(record, state="expired", reason="r", now_ms=1),
}


def _outcome(act: Callable[[Record, int], Record], record: Record, epoch: int) -> Record | type:
    try:
        return act(record, epoch)
    except (Conflict, StaleEpoch) as refusal:
        return type(refusal)


@pytest.mark.parametrize("name", ACTS)
@settings(max_examples=50)
@given(record=records(), classes=st.booleans())
def test_what_the_model_drops_decides_nothing(name: str, record: Record, classes: bool) -> None:
    """First drop, then act, is the same as first act, then drop. Without classes nothing rises in the model."""
    classes = classes or name == "rise"

    def drop(outcome: Record | type) -> Record | type:
        return abstracted(outcome, classes=classes) if isinstance(outcome, Record) else outcome

    concrete = _outcome(ACTS[name], record, EPOCH)
    abstract = _outcome(ACTS[name], abstracted(record, classes=classes), EPOCH)

    assert drop(abstract) == drop(concrete)


@pytest.mark.parametrize("name", ACTS)
@settings(max_examples=50)
@given(record=records(), shift=st.integers(1, 1000), view=st.integers(-1, 1))
def test_only_differences_of_epochs_count(name: str, record: Record, shift: int, view: int) -> None:
    """The same record many owners later is treated alike."""

    def shifted(record: Record, by: int) -> Record:
        return replace(
            record,
            epoch=record.epoch + by,
            interruptions=(),
            lost=None,
            last_loss=None,
            latest=None,
        )

    here = _outcome(ACTS[name], shifted(record, 0), EPOCH + view)
    later = _outcome(ACTS[name], shifted(record, shift), EPOCH + view + shift)

    if isinstance(here, Record) and isinstance(later, Record):
        assert shifted(here, shift) == shifted(later, 0)
    else:
        assert here == later
