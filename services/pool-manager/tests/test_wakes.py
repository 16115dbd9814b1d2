"""Which wake-ups a session without an owner still needs, and which of them are kept for later."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from pool_manager.core import wakes
from pool_manager.core.table import Row
from pool_manager.core.wakes import LET_GO_S, Wake, Wakes, is_needed, lane_of
from shared.record import Record

RUNNING = Record(
    session="s", tenant="t", pool="p", state="running", lane="batch", client_lane="batch", keep=True, accepted_ms=1,
    owner="w", epoch=1, position=3, first_done=True,
)  # fmt: skip
IDLE = replace(RUNNING, state="idle", owner=None)
QUEUED = replace(IDLE, state="queued")


def wake(seq: int | None = 4, *asks: str | None, since: float = 10.0) -> Wake:
    """Return a wake-up."""
    return Wake("t", "s", seq, frozenset(asks or (None,)), since)


def row(record: Record, since: float = 1.0) -> Row:
    """Return what a table has of a session."""
    return Row("t.s", record, 7, since)


def changed(**changes: Any) -> Record:
    """Return a queued record with changes."""
    return replace(QUEUED, **changes)


@pytest.mark.parametrize(
    ("asks", "own", "lane"),
    [
        ((None,), "batch", "batch"),
        (("interactive",), "batch", "interactive"),
        (("batch",), "interactive", "batch"),
        (("batch", None), "interactive", "interactive"),
    ],
)
def test_a_session_waits_as_urgently_as_its_inbox_asks(asks: Any, own: str, lane: str) -> None:
    """What says nothing asks for the session's own class."""
    assert lane_of(wake(4, *asks), replace(IDLE, client_lane=own)) == lane


def test_only_what_sleeps_or_waits_less_urgently_is_woken() -> None:
    """An owner hears by itself; `recovery` is the most urgent of all."""
    urgent = wake(4, "interactive")

    assert is_needed(urgent, IDLE)
    assert is_needed(urgent, QUEUED)
    assert not is_needed(wake(4, "batch"), QUEUED)
    assert not is_needed(urgent, changed(lane="interactive"))
    assert not is_needed(urgent, changed(lane="recovery"))
    assert not is_needed(urgent, RUNNING)
    assert not is_needed(wake(3, "interactive"), IDLE)  # its entry has its result
    assert is_needed(wake(None, "interactive"), IDLE)


def test_a_wake_up_that_overtakes_the_release_is_not_lost() -> None:
    """Heard while the record still names an owner that looks no more; due when the release is heard."""
    known = Wakes()

    assert not known.heard(wake(4), row(RUNNING))
    assert not known.noticed(row(RUNNING), 10.1)
    assert not known.due
    assert known.noticed(row(IDLE, since=10.2), 10.2)
    assert known.due["t.s"].since == pytest.approx(10.2 + LET_GO_S)


def test_what_its_owner_has_done_wakes_nobody() -> None:
    """The released record covers the entry; after that nothing is remembered."""
    known = Wakes()
    known.heard(wake(4), row(RUNNING))

    assert not known.noticed(row(replace(IDLE, position=4), since=10.2), 10.2)
    assert not known.noticed(row(IDLE, since=10.3), 10.3)


def test_a_session_let_go_a_moment_ago_is_left_to_its_owner() -> None:
    """Which may take it back, workspace and all. One that sleeps for long is woken at once."""
    known = Wakes()

    known.heard(wake(4, since=10.0), row(IDLE, since=9.9))
    assert known.due["t.s"].since == pytest.approx(9.9 + LET_GO_S)
    known.heard(replace(wake(5, since=10.1), session="other"), row(IDLE, since=1.0))
    assert known.due["t.other"].since == 10.1


def test_two_wake_ups_are_one_in_the_more_urgent_class() -> None:
    """Due since the first."""
    known = Wakes()
    known.heard(wake(4, "batch", since=10.0), row(IDLE))
    known.heard(wake(5, "interactive", since=10.4), row(IDLE))

    due = known.due["t.s"]
    assert (due.seq, due.since, lane_of(due, IDLE)) == (5, 10.0, "interactive")


def test_a_queued_session_rises_when_what_it_waits_for_turns_urgent() -> None:
    """Also when the urgent entry was heard of while the session still had an owner."""
    known = Wakes()
    known.heard(wake(4, "interactive"), row(RUNNING))

    assert known.noticed(row(QUEUED, since=10.5), 10.5)
    assert known.due["t.s"].since == 10.5
    known.taken("t.s")
    assert not known.noticed(row(changed(lane="interactive")), 11.0)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The survey of the inboxes finds the rest."""
    monkeypatch.setattr(wakes, "WAKES_MAX", 2)
    known = Wakes()
    for number in range(4):
        known.heard(replace(wake(4), session=f"asleep-{number}"), row(IDLE))
        known.heard(replace(wake(4), session=f"owned-{number}"), row(RUNNING))

    assert list(known.due) == ["t.asleep-0", "t.asleep-1"]
    known.due.clear()
    kept = [
        number
        for number in range(4)
        if known.noticed(replace(row(IDLE), key=f"t.owned-{number}"), 11.0)
    ]
    assert kept == [2, 3]
