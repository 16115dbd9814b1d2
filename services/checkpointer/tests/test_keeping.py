"""Names of snapshots and pins of forks: what a workspace head becomes, and what is refused."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from checkpointer.core.keeping import kept_for, labelled, of_fork, pinned
from shared import limits
from shared.errors import Conflict, InvalidMessage, LimitExceeded, NotFound
from shared.workspace import Pin, Retained, SnapshotRef, WorkspaceHead


def ref(number: int) -> SnapshotRef:
    """Return a snapshot."""
    return SnapshotRef(id=f"{number:064x}", pack=f"acme/session/p{number}", at_ms=number)


def head_of(count: int) -> WorkspaceHead:
    """Return the head of a session that retains so many snapshots."""
    retained = tuple(Retained(snapshot=ref(number), epoch=1) for number in range(count))
    return WorkspaceHead(session="session", tenant="acme", pool="default", retained=retained)


def test_a_pin_and_its_proof_are_one_write() -> None:
    """What is not retained can not be pinned; the same pin again changes nothing."""
    head = head_of(2)
    once = pinned(head, ref(1), "fork-0001")

    assert once.pins == (Pin(snapshot=ref(1).id, session="fork-0001"),)
    assert pinned(once, ref(1), "fork-0001") == once
    assert pinned(replace(once, deleted=True), ref(1), "fork-0001").pins == once.pins
    for gone in (replace(head, deleted=True), head_of(1)):
        with pytest.raises(NotFound, match="not kept any more"):
            pinned(gone, ref(1), "fork-0001")


def test_a_snapshot_is_named_renamed_and_let_go() -> None:
    """By one name at a time, which no other snapshot of the session has."""
    named = labelled(head_of(3), ref(1).id, "good")

    assert [one.name for one in named.retained] == ["", "good", ""]
    assert labelled(named, ref(1).id, "good") == named
    assert [one.name for one in labelled(named, ref(1).id, "better").retained] == ["", "better", ""]
    assert labelled(named, ref(1).id, "") == head_of(3)
    with pytest.raises(Conflict, match="named 'good'"):
        labelled(named, ref(2).id, "good")
    with pytest.raises(NotFound):
        labelled(named, ref(9).id, "other")
    with pytest.raises(InvalidMessage, match="beginning of an id"):
        labelled(named, ref(2).id, "deadbeef")


def test_names_and_forks_are_bounded() -> None:
    """One more is refused with the bound; what has a name may have another."""
    head = head_of(limits.SNAPSHOTS_NAMED_MAX + 1)
    for number in range(limits.SNAPSHOTS_NAMED_MAX):
        head = labelled(head, ref(number).id, f"n-{number}")
    with pytest.raises(LimitExceeded, match="SNAPSHOTS_NAMED_MAX"):
        labelled(head, ref(limits.SNAPSHOTS_NAMED_MAX).id, "one-more")
    labelled(head, ref(0).id, "another")

    for number in range(limits.FORKS_MAX):
        head = pinned(head, ref(0), f"fork-{number:04}")
    with pytest.raises(LimitExceeded, match="FORKS_MAX"):
        pinned(head, ref(0), "one-more")
    assert pinned(head, ref(0), "fork-0000") == head


def test_a_snapshot_gone_back_to_is_as_safe_as_a_new_one() -> None:
    """Until the record names it, its place and its epoch keep it: it is the newest now."""
    kept = kept_for(head_of(2), ref(0), epoch=7)

    assert [(one.snapshot, one.epoch) for one in kept.retained] == [(ref(1), 1), (ref(0), 7)]
    assert kept_for(kept, ref(0), epoch=3) == kept
    with pytest.raises(NotFound):
        kept_for(head_of(2), ref(5), epoch=7)


def test_a_fork_begins_with_its_parent_s_snapshot() -> None:
    """Its own head names where it comes from, for whoever deletes it."""
    head = of_fork(("acme", "default", "fork-0001"), "session", ref(1))

    assert (head.session, head.pool, head.pins) == ("fork-0001", "default", ())
    assert [one.snapshot for one in head.retained] == [ref(1)]
    assert head.base is not None
    assert (head.base.session, head.base.snapshot) == ("session", ref(1))
    later = replace(head, retained=())
    assert pinned(later, ref(1), "fork-0002").pins[0].session == "fork-0002", (
        "its base stays with it"
    )
