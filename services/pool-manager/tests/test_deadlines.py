"""Which inbox entries' deadlines are known."""

from __future__ import annotations

import pytest

from pool_manager.core import deadlines
from pool_manager.core.deadlines import Deadlines, due_of


def read(known: Deadlines, key: str, seq: int) -> None:
    """Read an entry."""
    tenant, session = key.split(".")
    known.read(key, due_of((tenant, session, f"task-{seq}"), (seq, 1000), b"{}", ""))


def test_an_inbox_that_lost_one_entry_and_got_another_is_read_again() -> None:
    """It has as many as before; by their number alone the newest one's deadline was never known."""
    known = Deadlines()
    read(known, "t.s", 5)
    read(known, "t.s", 6)
    known.was_read("t.s", 2, 0)
    assert known.is_read("t.s", 2, 0)

    known.done("t.s", 5)

    assert not known.is_read("t.s", 2, 0)
    assert [due.seq for due in known.of("t.s")] == [6]


def test_one_tenants_backlog_keeps_no_others_deadlines_from_being_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each tenant has its share of what is tracked; what leaves makes room."""
    monkeypatch.setattr(deadlines, "TENANT_MAX", 2)
    known = Deadlines()
    read(known, "a.s1", 1)
    read(known, "a.s2", 2)

    assert not known.has_room("a.s3")
    assert known.has_room("b.s1")
    known.passed("a.s1", 1)
    assert known.has_room("a.s3")
    known.forget("a.s2")
    assert len(known) == 0
