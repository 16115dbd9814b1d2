"""Which tenants have as much as they may, and which inbox entries are too many."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from pool_manager.core.quota import (
    Ahead,
    Quotas,
    StoredObject,
    full_tenants,
    has_too_much,
    keep_oldest,
    to_drop,
)
from pool_manager.core.table import Table
from shared.quota import TenantFull
from shared.record import ENDED, Record, State

QUOTAS = Quotas(sessions_max=3, inbox_entries_max=5, tenant_inbox_entries_max=20)
STATES: tuple[State, ...] = ("queued", "running", "idle", "closed", "poison")

inboxes = st.dictionaries(
    st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 40).map(str)), st.integers(1, 30)
)


def record(session: int, state: State) -> Record:
    """Return a record of tenant `t0` or `t1`."""
    return Record(
        session=str(session),
        tenant=f"t{session % 2}",
        pool="p",
        state=state,
        lane="batch",
        client_lane="batch",
        keep=True,
        accepted_ms=1,
    )


def test_a_tenant_at_its_bound_is_full() -> None:
    """The next session would be one too many."""
    assert full_tenants({"a": 2, "b": 3, "c": 9}, QUOTAS) == (
        TenantFull("b", 3, 3),
        TenantFull("c", 9, 3),
    )


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(STATES)), max_size=40))
def test_open_sessions_are_counted_by_tenant(writes: list[tuple[int, State]]) -> None:
    """Whatever happens to the records, in whatever order of states."""
    table, states = Table(), dict[int, State]()
    for seq, (session, state) in enumerate(writes, start=1):
        table.apply(record(session, state), seq, now=0.0)
        states[session] = state

    for tenant in ("t0", "t1"):
        expected = sum(
            state not in ENDED for session, state in states.items() if f"t{session % 2}" == tenant
        )
        assert table.open_of.get(tenant, 0) == expected
    assert set(table.open_of) <= {"t0", "t1"}


def test_one_long_inbox_is_cut() -> None:
    """Its neighbours stay whole."""
    assert keep_oldest({("a", "1"): 9, ("a", "2"): 5, ("b", "3"): 6}, QUOTAS) == {
        ("a", "1"): 5,
        ("b", "3"): 5,
    }


def test_a_tenant_with_too_many_in_all_loses_from_its_longest() -> None:
    """Five inboxes of five are more than twenty: all are cut to four."""
    entries = {("a", str(number)): 5 for number in range(5)} | {("a", "short"): 1}
    assert keep_oldest(entries, QUOTAS) == {("a", str(number)): 3 for number in range(5)}


def test_a_tenant_with_too_many_sessions_keeps_some_whole() -> None:
    """One entry each is too many already: those that stay are as many as may."""
    kept = keep_oldest({("a", f"{number:02}"): 1 for number in range(25)}, QUOTAS)
    assert kept == {("a", f"{number:02}"): 0 for number in range(20, 25)}


@given(inboxes)
def test_what_stays_is_within_both_bounds(entries: dict[tuple[str, str], int]) -> None:
    """And nothing is cut of a tenant that was within them."""
    kept = keep_oldest(entries, QUOTAS)
    for tenant in ("a", "b"):
        before = {session: count for session, count in entries.items() if session[0] == tenant}
        after = {session: kept.get(session, count) for session, count in before.items()}
        assert all(after[session] <= before[session] for session in before)
        assert all(count <= QUOTAS.inbox_entries_max for count in after.values())
        assert sum(after.values()) <= QUOTAS.tenant_inbox_entries_max
        within = all(count <= QUOTAS.inbox_entries_max for count in before.values())
        if within and sum(before.values()) <= QUOTAS.tenant_inbox_entries_max:
            assert after == before


def test_what_is_asked_ahead_is_counted_by_tenant_and_window() -> None:
    """One tenant's greed is not another's."""
    ahead = Ahead(2, 10.0)
    assert [ahead.take("a", 100.0) for _ in range(3)] == [True, True, False]
    assert ahead.take("b", 100.0)
    assert ahead.take("a", 110.0)


def test_the_newest_objects_that_fit_stay() -> None:
    """Of the tenant that has too much; its neighbour is not looked at."""
    size = StoredObject("", "", 1, 0).size_bytes
    objects = [StoredObject("a", f"{number}", 2, 0) for number in range(4)]
    found = has_too_much([*objects, StoredObject("b", "x", 5, 0)], 5 * size)
    assert found == objects
    ages = dict(zip(objects, (30, 10, 20, 40), strict=True))
    assert to_drop(ages, 5 * size) == [objects[1], objects[2]]
    assert to_drop(ages, 8 * size) == []
