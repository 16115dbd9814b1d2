"""How people call snapshots."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from shared.errors import InvalidMessage, NotFound
from shared.kept import find, kept, rows
from shared.limits import SNAPSHOT_NAME_LENGTH_MAX
from shared.record import Record
from shared.snapshots import check_name, check_wanted
from shared.workspace import Pin, Retained, SnapshotRef, WorkspaceHead

FIRST, LAST = (
    SnapshotRef(id=letter * 64, pack=f"acme/session-1/{letter}", at_ms=at)
    for at, letter in enumerate("ab")
)
OPEN = Record(
    session="session-1", tenant="acme", pool="p", state="idle", lane="batch", client_lane="batch", keep=True,
    accepted_ms=1, boundary=LAST,
)  # fmt: skip
CLOSED = replace(OPEN, state="closed")
HEAD = WorkspaceHead(
    session="session-1",
    tenant="acme",
    pool="p",
    retained=(Retained(snapshot=FIRST, epoch=1, name="first"), Retained(snapshot=LAST, epoch=1)),
)
PINNED = replace(HEAD, pins=(Pin(snapshot=FIRST.id, session="fork-1"),))


@pytest.mark.parametrize("head", [None, HEAD, replace(HEAD, deleted=True)])
def test_an_ended_session_has_no_snapshot(head: WorkspaceHead | None) -> None:
    """Its record names the last one for two days yet; what it names is removed, or will be in a moment."""
    assert [row.id for row in rows(OPEN, HEAD)] == [LAST.id, FIRST.id]

    assert kept(CLOSED, head) == []
    for wanted in (None, "first", LAST.id):
        with pytest.raises(NotFound, match=r"has ended \(closed\): its files are gone"):
            find(CLOSED, head, wanted)


def test_of_an_ended_session_what_a_fork_began_with_is_kept() -> None:
    """Until the last fork ends; the session itself goes on from nothing."""
    (row,) = rows(CLOSED, PINNED)

    assert (row.id, row.forks, row.head) == (FIRST.id, 1, None)
    assert find(CLOSED, PINNED, "first").snapshot == find(CLOSED, PINNED, None).snapshot == FIRST
    with pytest.raises(NotFound, match="any more"):
        find(CLOSED, PINNED, LAST.id)


@pytest.mark.parametrize("check", [check_name, check_wanted])
@pytest.mark.parametrize(
    "said",
    ["a b", "x/y", "-a", "v1\n", "ü", "x" * (SNAPSHOT_NAME_LENGTH_MAX + 1)],
)
def test_what_is_no_name_is_refused_in_words(check: Callable[[str], str], said: str) -> None:
    """Not by a pattern: it says what is expected, and repeats no more of it than a line holds."""
    with pytest.raises(InvalidMessage, match="letters, digits") as refused:
        check(said)
    assert len(str(refused.value)) < 300


def test_a_name_is_no_beginning_of_an_id() -> None:
    """Else nobody knew what is meant; to mean a snapshot by one is as good as by a name."""
    with pytest.raises(InvalidMessage, match="beginning of an id"):
        check_name("deadbeef")
    assert (check_name(""), check_name("v1.0_b-2")) == ("", "v1.0_b-2")
    assert check_wanted("deadbeef") == "deadbeef"
    with pytest.raises(InvalidMessage):
        check_wanted("")
