"""What a run has found, as data: verdict, figures, targets, and the lines that pictures are drawn from."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from chaos.core.around import Around
from chaos.core.criteria import CRITERIA, KUBERNETES_CRITERIA, Outcome, together
from chaos.core.growth import Growth, growth_of
from chaos.core.history import History
from chaos.core.measure import Impact, Measured, measure
from chaos.core.report.lines import Lines, lines_of
from chaos.core.scenario import ALONE, LEADER_KILLED, NODES_KILLED
from chaos.core.verdict import Verdict, judge


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
KUBERNETES_TARGETS: dict[str, Target] = HEADLINE_TARGETS | {
    "sessions": Target(60, at_least=True),
    "bound_at_fault": Target(54, at_least=True),
    "sessions_hit": Target(9, at_least=True),
    "detect_p95_s": Target(4.5),
    "recover_p50_s": Target(7.0),
    "recover_p95_s": Target(10.0),
    "queue_gap_s": Target(2.0),
}
"""A node that loses its power says nothing any more, and a server on it hangs for the others: neither is told of its end."""
LEADER_FAULTS = {LEADER_KILLED, "queue-leader-ended"}
"""Faults after which the queue may take nothing for a moment."""
SIZES = ("sessions", "bound_at_fault", "sessions_hit")
"""Targets of the size of the run, not of the product."""


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
    growth: tuple[Growth, ...] = ()
    """Of a run without faults."""
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
        targets=_targets(run, faults, settings.get("on", "")),
        measured=measured,
        lines=lines_of(history, measured),
        growth=growth_of(history),
        end_s=history.end_s,
        think=max((gauge.think for gauge in history.gauges), default=1.0),
    )


def _targets(run: str, faults: Collection[str], on: str) -> dict[str, Target]:
    if run.startswith(ALONE):
        of_faults = KUBERNETES_CRITERIA if on == "kubernetes" else CRITERIA
        criteria = of_faults[run.removeprefix(ALONE)]
        return {name: Target(most) for name, most in criteria.most.items()} | {
            kind: Target(0) for kind in ZEROES
        }
    if run == "quiet":
        return {name: HEADLINE_TARGETS[name] for name in (*ZEROES, "verdict")}
    targets = dict(KUBERNETES_TARGETS if run == "headline-kubernetes" else HEADLINE_TARGETS)
    if not run.startswith("headline") or run.endswith("-short"):
        targets = {name: target for name, target in targets.items() if name not in SIZES}
    if not LEADER_FAULTS & set(faults):
        targets.pop("queue_gap_s")
    return targets


def _figures(measured: Measured, verdict: Verdict) -> dict[str, float]:
    """Return the figures by their names; one that was not measured is not among them."""
    first = _first(measured, NODES_KILLED) or next(iter(measured.impacts), None)
    near = first.around if first else Around()
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
        "mttd_s": first.detect.mean if first else None,
        "mttr_s": first.recover.mean if first else None,
        "not_recovered": first.not_recovered if first else None,
        "stall": measured.stall,
        "redo": first.redo if first else None,
        "start_gap_s": first.out_start_s if first else None,
        **msgspec.structs.asdict(near),
        "baseline_p99_s": measured.baseline.turn_p99_s,
        "turns": measured.turns,
        "one_shots": measured.one_shots,
        "verdict": 1.0 if verdict.verdict == "true" else 0.0,
    }
    return {name: round(value, 4) for name, value in found.items() if value is not None}


def _first(measured: Measured, fault: str) -> Impact | None:
    return next((one for one in measured.impacts if one.fault == fault), None)
