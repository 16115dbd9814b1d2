"""What a run has found, as data: verdict, figures, targets, and the lines that pictures are drawn from."""

from __future__ import annotations

import bisect
import itertools
from collections import defaultdict
from collections.abc import Collection
from typing import Any

import msgspec

from chaos.core.criteria import CRITERIA, Outcome, together
from chaos.core.history import History
from chaos.core.hits import Hit
from chaos.core.measure import Impact, Measured, measure
from chaos.core.scenario import ALONE, LEADER_KILLED, NODES_KILLED
from chaos.core.verdict import Verdict, judge
from shared.percentiles import percentile

BIN_S = 5.0
Point = tuple[float, float]


class Target(msgspec.Struct, frozen=True):
    """What a figure must reach."""

    reach: float
    at_least: bool = False

    def is_met(self, value: float) -> bool:
        """Return whether a value reaches it."""
        return value >= self.reach if self.at_least else value <= self.reach


ZEROES = ("lost", "dup", "fork", "stale", "zombie", "conserve")
HEADLINE_TARGETS: dict[str, Target] = {
    "sessions": Target(300, at_least=True),
    "bound_at_fault": Target(270, at_least=True),
    "sessions_hit": Target(75, at_least=True),
    "detect_p95_s": Target(1.0),
    "recover_p50_s": Target(3.5),
    "recover_p95_s": Target(7.0),
    "recover_max_s": Target(15.0),
    "error_share": Target(0.001),
    "queue_gap_s": Target(1.0),
    **{kind: Target(0) for kind in ZEROES},
    "verdict": Target(1, at_least=True),
}
LEADER_FAULTS = {LEADER_KILLED, "queue-leader-ended"}
"""Faults after which the queue may take nothing for a moment."""
SIZES = ("sessions", "bound_at_fault", "sessions_hit")
"""Targets of the size of the run, not of the product."""


class Lines(msgspec.Struct, frozen=True, kw_only=True):
    """What pictures are drawn from."""

    stalled: list[Point] = []
    """Seconds, sessions."""
    live: list[Point] = []
    recovered: list[Point] = []
    latency_p50: list[Point] = []
    latency_p99: list[Point] = []
    acks: list[Point] = []
    """When a PubAck of a one-shot came, and seconds since the one before; the long ones."""
    warm: list[Point] = []
    bound: list[Point] = []
    pressure: list[Point] = []


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """All that a run has found."""

    run: str
    seed: int
    commit: str
    machine: dict[str, Any]
    settings: dict[str, Any]
    verdict: Verdict
    figures: dict[str, float]
    targets: dict[str, Target]
    measured: Measured
    lines: Lines
    end_s: float
    think: float = 1.0
    """Users thought so many times longer than they would: the machine was too busy."""

    @property
    def outcome(self) -> Outcome:
        """What verdict and targets come to; a target without a figure is not known to be reached."""
        verdicts: dict[str, Outcome] = {"true": "pass", "unknown": "unknown", "false": "fail"}
        met: list[Outcome] = [verdicts[self.verdict.verdict]]
        for name, target in self.targets.items():
            if name not in self.figures:
                met.append("unknown")
            elif name != "verdict":
                met.append("pass" if target.is_met(self.figures[name]) else "fail")
        return together(met)

    def missed(self) -> list[str]:
        """Return the figures that do not reach their target."""
        return [
            name
            for name, target in self.targets.items()
            if name in self.figures and not target.is_met(self.figures[name])
        ]


def conclude(history: History) -> Findings:
    """Judge and measure a history."""
    header = history.header
    settings = dict(header.settings) if header else {}
    faults = [row.fault for row in history.nemesis]
    verdict = judge(history, is_quiet=header is not None and not settings.get("schedule"))
    measured = measure(history)
    run = header.run if header else "unknown"
    figures = _figures(measured, verdict)
    return Findings(
        run=run,
        seed=header.seed if header else 0,
        commit=header.commit if header else "",
        machine=dict(header.machine) if header else {},
        settings=settings,
        verdict=verdict,
        figures=figures,
        targets=_targets(run, faults),
        measured=measured,
        lines=_lines(history, measured),
        end_s=history.end_s,
        think=max((gauge.think for gauge in history.gauges), default=1.0),
    )


def _targets(run: str, faults: Collection[str]) -> dict[str, Target]:
    if run.startswith(ALONE):
        criteria = CRITERIA[run.removeprefix(ALONE)]
        return {name: Target(most) for name, most in criteria.most.items()} | {
            kind: Target(0) for kind in ZEROES
        }
    targets = dict(HEADLINE_TARGETS)
    if run != "headline":
        targets = {name: target for name, target in targets.items() if name not in SIZES}
    if not LEADER_FAULTS & set(faults):
        targets.pop("queue_gap_s")
    return targets


def _figures(measured: Measured, verdict: Verdict) -> dict[str, float]:
    """Return the figures by their names; one that was not measured is not among them."""
    first = _first(measured, NODES_KILLED) or next(iter(measured.impacts), None)
    leader = next((one for one in measured.impacts if one.fault in LEADER_FAULTS), None)
    found: dict[str, float | None] = {
        "sessions": measured.sessions,
        "bound_at_fault": measured.bound_at_fault,
        "sessions_hit": first.hit if first else None,
        "users_with_error": measured.users_with_error,
        "disconnects": measured.disconnects,
        "reattached_without_gap": measured.reattached_without_gap,
        "detect_p95_s": first.detect.p95 if first else None,
        "recover_p50_s": first.recover.p50 if first else None,
        "recover_p95_s": first.recover.p95 if first else None,
        "recover_max_s": first.recover.max if first else None,
        "error_share": first.error_share if first else None,
        "queue_gap_s": leader.out_queue_s if leader else None,
        **{kind: float(verdict.counts.get(kind, 0)) for kind in ZEROES},  # type: ignore[call-overload]  # kinds
        "order": verdict.counts["order"],
        "false_fences": verdict.counts["false"],
        "fences": measured.fences,
        "stall": measured.stall,
        "redo": first.redo if first else None,
        "turns": measured.turns,
        "one_shots": measured.one_shots,
        "verdict": 1.0 if verdict.verdict == "true" else 0.0,
    }
    return {name: round(value, 4) for name, value in found.items() if value is not None}


def _first(measured: Measured, fault: str) -> Impact | None:
    return next((one for one in measured.impacts if one.fault == fault), None)


def _lines(history: History, measured: Measured) -> Lines:
    hits = [hit for impact in measured.impacts for hit in impact.hits if not hit.is_once]
    stalled, recovered, live = _standing(history, hits)
    p50, p99 = _latencies(history)
    acks = sorted(one.time for one in history.accepted if one.is_once)
    gaps = [(after, after - before) for before, after in itertools.pairwise(acks)]
    return Lines(
        stalled=stalled,
        live=live,
        recovered=recovered,
        latency_p50=p50,
        latency_p99=p99,
        acks=sorted(sorted(gaps, key=lambda gap: -gap[1])[:400]),
        warm=[(one.time, pool[0]) for one in history.gauges for pool in one.pools.values()],
        bound=[(one.time, pool[2]) for one in history.gauges for pool in one.pools.values()],
        pressure=[(one.time, one.pressure) for one in history.gauges if one.pressure is not None],
    )


def _standing(history: History, hits: list[Hit]) -> tuple[list[Point], list[Point], list[Point]]:
    """Return how many sessions were stalled, had recovered and were live, second by second."""
    made = sorted(
        min(call.ended_at for call in calls if call.is_ok)
        for calls in history.by_session().values()
        if calls[0].invoke.f == "append" and any(call.is_ok for call in calls)
    )
    begins = sorted(hit.at_s for hit in hits)
    ends = sorted(_back_at(hit) for hit in hits)
    stalled, recovered, live = [], [], []
    for second in range(int(history.end_s) + 1):
        down = bisect.bisect_right(begins, second) - bisect.bisect_right(ends, second)
        stalled.append((float(second), float(down)))
        recovered.append((float(second), float(bisect.bisect_right(ends, second))))
        live.append((float(second), float(bisect.bisect_right(made, second) - down)))
    return stalled, recovered, live


def _back_at(hit: Hit) -> float:
    """Return when a session that was hit went on: with its task, or, where it had none, with a new owner."""
    moment = hit.home_at if hit.kind == "idle" else hit.useful_at
    return float("inf") if moment is None else moment


def _latencies(history: History) -> tuple[list[Point], list[Point]]:
    bins: dict[int, list[float]] = defaultdict(list)
    for call in history.calls:
        if call.is_ok and call.invoke.f == "append" and call.invoke.kind != "long":
            bins[int(call.ended_at // BIN_S)].append(call.ended_at - call.invoke.time)
    p50 = [(place * BIN_S, percentile(values, 50)) for place, values in sorted(bins.items())]
    p99 = [(place * BIN_S, percentile(values, 99)) for place, values in sorted(bins.items())]
    return p50, p99
