"""A time to interactive and its parts, whatever the clocks say."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.messages import Interruption, TaskResult, Timing
from shared.tti import make_tti, tti_by_servers, tti_by_worker

STAMPS = Timing(
    accepted_ms=1000, path="warm", delivered_ms=1001.5, claimed_ms=1003.75, started_ms=1006.0
)
CLOCKS = st.floats(0, 4e12)


def test_the_parts_are_the_differences_of_the_stamps() -> None:
    """And the whole is the caller's."""
    tti = make_tti(STAMPS, 7.12345)

    assert tti is not None
    assert (tti.tti_ms, tti.path, tti.measured_by) == (7.123, "warm", "caller")
    assert (tti.queue_wait_ms, tti.claim_ms, tti.start_ms) == (1.5, 2.25, 2.25)


@pytest.mark.parametrize(("skew_ms", "queue_wait_ms"), [(-5000.0, 0.0), (5000.0, 2.5)])
def test_a_worker_whose_clock_is_off_shows_no_wait_below_nothing_or_beyond_the_whole(
    skew_ms: float, queue_wait_ms: float
) -> None:
    """Only the wait compares its clock with another; what is left of the whole is its most."""
    tti = make_tti(
        Timing(
            accepted_ms=1000,
            path="on-demand",
            delivered_ms=1001.5 + skew_ms,
            claimed_ms=1003.75 + skew_ms,
            started_ms=1006.0 + skew_ms,
        ),
        7.0,
    )

    assert tti is not None
    assert (tti.queue_wait_ms, tti.claim_ms, tti.start_ms) == (queue_wait_ms, 2.25, 2.25)


@given(st.integers(0, 4 * 10**12), CLOCKS, CLOCKS, CLOCKS.filter(bool), st.floats(-1e6, 1e6))
def test_no_stamps_make_a_part_negative_or_their_sum_more_than_the_whole(
    accepted_ms: int, delivered_ms: float, claimed_ms: float, started_ms: float, tti_ms: float
) -> None:
    """Clocks may be set at any moment."""
    tti = make_tti(
        Timing(
            accepted_ms=accepted_ms,
            path="bound",
            delivered_ms=delivered_ms,
            claimed_ms=claimed_ms,
            started_ms=started_ms,
        ),
        tti_ms,
    )

    assert tti is not None
    assert min(tti.tti_ms, tti.queue_wait_ms, tti.claim_ms, tti.start_ms) >= 0
    assert tti.queue_wait_ms + tti.claim_ms + tti.start_ms <= tti.tti_ms + 0.002


@pytest.mark.parametrize(
    "timing",
    [
        None,
        Timing(),
        Timing(accepted_ms=1, delivered_ms=1, claimed_ms=1, started_ms=1),
        Timing(accepted_ms=1000, path="warm", delivered_ms=1001.5, claimed_ms=1003.75),
    ],
)
def test_what_never_started_or_does_not_say_how_it_came_has_none(timing: Timing | None) -> None:
    """An older worker says nothing of it."""
    assert make_tti(timing, 5.0) is None
    assert tti_by_servers(timing, 5) is None


def test_where_the_caller_is_gone_the_servers_stamps_say_it() -> None:
    """Both are theirs; a start that was stored before its acceptance, by another server's clock, took no time."""
    tti = tti_by_servers(STAMPS, 1009)
    assert tti is not None
    assert (tti.tti_ms, tti.measured_by, tti.claim_ms) == (9, "servers", 2.25)

    early = tti_by_servers(STAMPS, 990)
    assert early is not None
    assert (early.tti_ms, early.start_ms) == (0, 0)


def test_where_the_event_is_gone_too_the_result_of_a_first_attempt_says_it() -> None:
    """Of a later one the result knows the last start only."""
    stored = TaskResult(task="x", session="s", tenant="t", status="ok", attempt=1, timing=STAMPS)
    tti = tti_by_worker(stored)
    assert tti is not None
    assert (tti.tti_ms, tti.measured_by, tti.queue_wait_ms) == (6, "worker", 1.5)

    loss = Interruption(cause="process_exit", epoch=1, worker="w", revoked_ms=1)
    for fields in ({"attempt": 2}, {"interruptions": (loss,)}, {"timing": Timing()}):
        assert tti_by_worker(msgspec.structs.replace(stored, **fields)) is None
