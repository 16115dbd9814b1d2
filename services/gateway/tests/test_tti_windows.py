"""What a gateway remembers of measured times: a sliding window by tenant, pool and path, and single tasks, both bounded."""

from __future__ import annotations

import math

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.measured import Measured
from gateway.core.windows import Bounds, Windows
from shared.messages import StartPath
from shared.rest import Tti


def tti(tti_ms: float, path: StartPath = "warm") -> Tti:
    """Return a measurement."""
    return Tti(
        tti_ms=tti_ms, path=path, queue_wait_ms=0, claim_ms=0, start_ms=0, measured_by="caller"
    )


SAMPLES = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.sampled_from(["p", "q"]),
        st.sampled_from(["warm", "on-demand", "bound"]),
        st.floats(0, 1e6),
        st.floats(0, 30),
    ),
    max_size=60,
)


@given(SAMPLES, st.floats(0, 200))
def test_a_row_says_what_its_own_samples_within_the_window_say(
    samples: list[tuple[str, str, StartPath, float, float]], rest_s: float
) -> None:
    """Each tenant, pool and path by itself; every figure is a value that was measured."""
    windows, now_s = Windows(Bounds(window_s=100)), 0.0
    said: list[tuple[float, tuple[str, str, StartPath], float]] = []
    for tenant, pool, path, value_ms, pause_s in samples:
        now_s += pause_s
        windows.add(tenant, pool, tti(value_ms, path), now_s)
        said.append((now_s, (tenant, pool, path), value_ms))
    now_s += rest_s

    for tenant in ("a", "b", "unknown"):
        rows = windows.rows(tenant, now_s)
        expected: dict[tuple[str, StartPath], list[float]] = {}
        for at_s, (owner, pool, path), value_ms in said:
            if owner == tenant and at_s > now_s - 100:
                expected.setdefault((pool, path), []).append(value_ms)
        assert [(row.pool, row.path) for row in rows] == sorted(expected)
        for row in rows:
            values = expected[row.pool, row.path]
            assert (row.count, row.last_ms, row.max_ms) == (len(values), values[-1], max(values))
            for share, figure in ((0.5, row.p50_ms), (0.9, row.p90_ms), (0.99, row.p99_ms)):
                assert figure == sorted(values)[math.ceil(share * len(values)) - 1]


def test_the_newest_samples_stand_for_a_row_that_has_too_many() -> None:
    """The count says on how many the figures rest."""
    windows = Windows(Bounds(samples_max=10))
    for number in range(25):
        windows.add("t", "p", tti(float(number)), float(number))

    (row,) = windows.rows("t", 25.0)
    assert (row.count, row.last_ms, row.p50_ms, row.max_ms) == (10, 24, 19, 24)


def test_many_pools_of_one_tenant_cost_it_its_own_oldest_rows_and_nobody_else_any() -> None:
    """What it fed last stays."""
    windows = Windows(Bounds(tenant_rows_max=3, rows_max=5))
    windows.add("quiet", "p", tti(1), 0)
    for number in range(50):
        windows.add("loud", "kept", tti(1), 1 + number)
        windows.add("loud", f"pool-{number}", tti(1), 1 + number)

    assert [row.pool for row in windows.rows("loud", 60)] == ["kept", "pool-48", "pool-49"]
    assert [row.pool for row in windows.rows("quiet", 60)] == ["p"]


def test_many_tenants_cost_what_was_fed_longest_ago() -> None:
    """Memory is bounded whoever comes."""
    windows = Windows(Bounds(rows_max=5))
    for number in range(50):
        windows.add(f"t{number}", "p", tti(1), number)

    kept = [number for number in range(50) if windows.rows(f"t{number}", 60)]
    assert kept == [45, 46, 47, 48, 49]


def test_the_first_word_about_a_task_stands() -> None:
    """A later one is of a call under the same id. What the servers say gives way to what a caller heard."""
    measured = Measured()
    by_servers = msgspec.structs.replace(tti(6), measured_by="servers")
    assert measured.put(("t", "s", "x"), by_servers)
    assert measured.put(("t", "s", "x"), tti(5))
    assert not measured.put(("t", "s", "x"), tti(9))

    assert not measured.put(("t", "s", "x"), by_servers)
    assert measured.get(("t", "s", "x")) == tti(5)
    assert measured.get(("other", "s", "x")) is None


def test_single_tasks_are_remembered_within_bounds_and_a_loud_tenant_costs_only_itself() -> None:
    """Of all, the tenant with the most gives way."""
    measured = Measured(tenant_max=10, most=12)
    measured.put(("quiet", "s", "x"), tti(1))
    for number in range(100):
        measured.put(("loud", "s", f"x{number}"), tti(1))
    assert measured.get(("quiet", "s", "x")) == tti(1)
    assert [n for n in range(100) if measured.get(("loud", "s", f"x{n}"))] == list(range(90, 100))

    for number in range(20):
        measured.put((f"t{number}", "s", "x"), tti(1))
    known = [("quiet", "s", "x"), *(("loud", "s", f"x{n}") for n in range(100))]
    known += [(f"t{n}", "s", "x") for n in range(20)]
    assert sum(measured.get(place) is not None for place in known) <= 12
    assert measured.get(("t19", "s", "x")) == tti(1)
