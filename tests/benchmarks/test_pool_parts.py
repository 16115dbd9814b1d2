"""Figures of the pool's benchmarks: what a mean's error is, what waited how long, and what idled."""

from __future__ import annotations

import pytest
from harness.report import Report
from pool_live_parts.drive import Level, Seen
from pool_live_parts.figures import enter_burst, enter_trace, idle_pod_s, picture
from pool_live_parts.plans import BURST_S, BURST_TIMES, Due, Plan, burst, squeezed
from pool_parts.measured import _mean
from pool_parts.replays import jobs_of
from priority_parts.crowd import Shot

from shared.messages import Stream, TaskResult, Timing
from shared.views import PoolView


def shot(at_s: float, wait_ms: float, klass: str = "interactive", *, cold: bool = False) -> Shot:
    """Return a task that was published then and waited so long."""
    accepted_ms = int(at_s * 1000) + 1
    timing = Timing(
        accepted_ms=accepted_ms,
        delivered_ms=accepted_ms + wait_ms,
        path="on-demand" if cold else "warm",
    )
    result = TaskResult(
        task="t", session="t", tenant="a", status="completed", stdout=Stream(text="1\n"), timing=timing
    )  # fmt: skip
    return Shot(task="t", due_ns=0, called_ns=int(at_s * 1e9) + 1, result=result, klass=klass)


def level(at_s: float, warm: int, stock: int = 4) -> Level:
    """Return how the pool was."""
    return Level(at_s, PoolView(pool="people", stock=stock, warm=warm))


def test_a_mean_says_how_far_another_draw_may_be_off() -> None:
    """Standard error: deviation of the draws over the root of their number; of a single one nothing is known."""
    assert _mean([1.0, 3.0]) == pytest.approx((2.0, 1.0))
    assert str(_mean([10.0, 10.5])) == "10.2 ± 0.2"
    assert _mean([5.0]) == (5.0, 0.0)


def test_all_replays_of_a_draw_follow_each_other() -> None:
    """A process makes a draw once; what is compared on the first draw alone is asked for once."""
    jobs = jobs_of(["servegen", "poisson"], 2)
    draws = [job[:2] for job in jobs]

    assert list(dict.fromkeys(draws)) == [("servegen", 0), ("servegen", 1), ("poisson", 0), ("poisson", 1)]  # fmt: skip
    assert draws == sorted(draws, key=list(dict.fromkeys(draws)).index)
    assert [job[2] for job in jobs].count("oracles") == 2
    assert len(set(jobs)) == len(jobs)


def test_what_idled_is_what_was_seen_until_the_next_look() -> None:
    """Only the time that is judged counts."""
    levels = [level(0, 2), level(10, 4), level(20, 0), level(30, 0)]

    assert idle_pod_s(levels, 0, 30) == 60
    assert idle_pod_s(levels, 5, 15) == 30


def test_the_trace_is_judged_after_its_first_seconds_by_what_waited() -> None:
    """One in four of the judged waited, twice what was asked; the beginning is left out."""
    shots = [shot(0, 9000, cold=True), *(shot(at, 5) for at in (31, 32, 33)), shot(34, 700, cold=True)]  # fmt: skip
    seen, report = Seen(shots, [level(0, 3), level(40, 3)]), Report("x", "c", {}, ())
    plan = Plan("p", [Due(at, "interactive") for at in (0, 31, 32, 33, 34)], 34.0, 30.0)

    enter_trace(report, seen, plan, 0.125)

    assert report.figures["trace_cold_share"] == 0.25
    assert report.figures["trace_cold_over_asked"] == 2
    assert report.figures["trace_wait_p99_ms"] == 700
    assert report.figures["trace_idle_pod_s"] == 12
    assert "waited for a pod (2)" in picture(seen, plan).draw(0)


def test_the_burst_says_for_each_class_who_waited_how_long() -> None:
    """What came before and after stands beside it; a task that never ran is lost."""
    plan = burst(2.0, 20.0)
    surge = [due for due in plan.due if 20.0 <= due.at_s < 20.0 + BURST_S]
    assert 0.7 * BURST_TIMES * 2 * BURST_S < len(surge) < 1.3 * BURST_TIMES * 2 * BURST_S
    shots = [shot(1, 5), shot(25, 40, cold=True), shot(26, 900, "batch", cold=True), shot(35, 5)]
    shots[-1].result = None
    seen, report = Seen(shots, [level(24, 1), level(31, 2), level(37, 4)]), Report("x", "c", {}, ())

    enter_burst(report, seen, plan, 0.02)

    assert report.figures["burst_interactive_wait_max_ms"] == 40
    assert report.figures["burst_batch_wait_p50_ms"] == 900
    assert report.figures["burst_lost"] == 1
    assert report.figures["burst_refilled_after_s"] == 7
    assert "interactive, before" in report.sections[0]


def test_a_trace_is_played_faster_and_only_as_long_as_asked() -> None:
    """The recorded order, in a part of its time."""
    plan = squeezed(60.0, 3.0)

    assert 59 < plan.length_s < 60
    assert [due.at_s for due in plan.due] == sorted(due.at_s for due in plan.due)
    assert len(plan.due) > 2 * len(squeezed(60.0, 1.0).due)
