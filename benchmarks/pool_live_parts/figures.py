"""Figures of what a live pool did: who waited how long, by class, and what it idled. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from harness.report import Report, table
from harness.stats import percentile
from harness.timelines import Field, Timeline
from priority_parts.crowd import Shot

from pool_live_parts.drive import Level, Seen
from pool_live_parts.plans import BURST_S, Plan

COLD = "on-demand"


def wait_ms(shot: Shot) -> float:
    """Return how long a task waited for its worker, milliseconds."""
    timing = shot.result.timing if shot.result is not None else None
    return 0.0 if timing is None else max(timing.delivered_ms - timing.accepted_ms, 0.0)


def is_cold(shot: Shot) -> bool:
    """Return whether no worker was waiting when the queue accepted the task."""
    return shot.result is None or shot.result.timing.path == COLD


def idle_pod_s(levels: Sequence[Level], begin_s: float, end_s: float) -> float:
    """Return the pod-seconds that warm pods waited, each look holding until the next."""
    total = 0.0
    for this, following in pairwise(levels):
        held_s = min(following.at_s, end_s) - max(this.at_s, begin_s)
        total += this.view.warm * max(held_s, 0.0)
    return total


def enter_trace(report: Report, seen: Seen, plan: Plan, asked: float) -> None:
    """Enter the share that waited against the one asked for, waits, and what it cost."""
    shots = [shot for shot, at_s in _timed(seen) if at_s >= plan.judged_from_s]
    cold = sum(is_cold(shot) for shot in shots) / len(shots)
    idle_s = idle_pod_s(seen.levels, plan.judged_from_s, plan.length_s)
    waits = [wait_ms(shot) for shot in shots]
    report.add("trace_activations", len(shots))
    report.add("trace_cold_share", cold)
    report.add("trace_cold_share_asked", asked)
    report.add("trace_cold_over_asked", cold / asked)
    report.add("trace_idle_per_activation_s", idle_s / len(shots))
    report.add("trace_idle_pod_s", idle_s)
    for share in (50, 99, 99.9):
        report.add(f"trace_wait_p{share:g}_ms", percentile(waits, share))
    report.add("trace_lost", _lost(seen.shots))
    warm = [level.view.warm for level in seen.levels if level.at_s >= plan.judged_from_s]
    if warm:
        report.add("trace_warm_mean", sum(warm) / len(warm))
        report.add("trace_warm_max", max(warm))
    if seen.levels and (policy := seen.levels[-1].view.policy) is not None:
        report.add("trace_start_mean_s", policy.start_s)


def enter_burst(report: Report, seen: Seen, plan: Plan, asked: float) -> None:
    """Enter who waited how long in the burst and after it, per class."""
    begin_s = plan.judged_from_s
    rows = []
    for klass in ("interactive", "batch"):
        own = [(shot, at_s) for shot, at_s in _timed(seen) if shot.klass == klass]
        for when, first_s, last_s in (
            ("before", 0.0, begin_s),
            ("burst", begin_s, begin_s + BURST_S),
            ("after", begin_s + BURST_S, plan.length_s),
        ):
            shots = [shot for shot, at_s in own if first_s <= at_s < last_s]
            if not shots:
                continue
            waits = [wait_ms(shot) for shot in shots]
            cold = sum(is_cold(shot) for shot in shots) / len(shots)
            found = [percentile(waits, share) for share in (50, 90, 99, 100)]
            rows.append(
                [f"{klass}, {when}", str(len(shots)), f"{cold:.1%}", *(f"{ms:.0f}" for ms in found)]
            )
            if when == "burst":
                report.add(f"burst_{klass}_tasks", len(shots))
                report.add(f"burst_{klass}_cold_share", cold)
                for name, ms in zip(("p50", "p90", "p99", "max"), found, strict=True):
                    report.add(f"burst_{klass}_wait_{name}_ms", ms)
    head = [
        f"who waited how long, ms ({asked:.1%} may)",
        "tasks",
        "cold",
        "p50",
        "p90",
        "p99",
        "max",
    ]
    report.sections.append(table(head, rows))
    report.add("burst_lost", _lost(seen.shots))
    report.add("burst_stock_max", max((level.view.stock for level in seen.levels), default=0))
    settled_s = _settled_s(seen.levels, begin_s + BURST_S)
    if settled_s is not None:
        report.add("burst_refilled_after_s", settled_s)


def picture(seen: Seen, plan: Plan) -> Timeline:
    """Return stock and warm pods, demand, and who had to wait, over the same time."""
    timed = _timed(seen)
    demand = Counter(int(at_s) for _, at_s in timed)
    levels = seen.levels
    pods = {
        "stock": [(level.at_s, float(level.view.stock)) for level in levels],
        "warm": [(level.at_s, float(level.view.warm)) for level in levels],
    }
    come = {
        "tasks a second": [
            (float(second), float(demand[second])) for second in range(int(plan.length_s) + 1)
        ]
    }
    cold = [at_s for shot, at_s in timed if is_cold(shot)]
    fields = [Field(f"{plan.name}: pods", pods), Field("demand", come)]
    return Timeline(plan.length_s, fields, {"waited for a pod": cold})


def _timed(seen: Seen) -> list[tuple[Shot, float]]:
    """Return each task with the seconds since the first one."""
    first_ns = seen.shots[0].called_ns
    return [(shot, (shot.called_ns - first_ns) / 1e9) for shot in seen.shots]


def _lost(shots: Sequence[Shot]) -> int:
    return sum(shot.user_ns is None for shot in shots)


def _settled_s(levels: Sequence[Level], since_s: float) -> float | None:
    """Return how long after that the pool first held its stock again; None: it was not seen to."""
    for level in levels:
        if level.at_s >= since_s and level.view.warm >= level.view.stock:
            return level.at_s - since_s
    return None
