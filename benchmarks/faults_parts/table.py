"""Outcomes as figures and as a table: step by kind. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from harness.report import Report, table
from harness.stats import percentile

from faults_parts.drive import Outcome
from shared.failpoints.steps import KINDS

SLOW_S = 5.0
"""A longer gap without progress wants an explanation."""


def enter(report: Report, outcomes: Sequence[Outcome], took_s: float) -> None:
    """Enter the figures."""
    report.add("scenarios", len(outcomes))
    report.add("wrong", sum(outcome.verdict == "WRONG" for outcome in outcomes))
    report.add("not_fired", len(never_fired(outcomes)))
    report.add("took_s", took_s)
    gaps = sorted(outcome.gap_s for outcome in outcomes)
    if gaps:
        report.add("gap_p50_s", percentile(gaps, 50))
        report.add("gap_p95_s", percentile(gaps, 95))
        report.add("gap_max_s", gaps[-1])
        report.add("gaps_over_5_s", sum(gap > SLOW_S for gap in gaps))


def never_fired(outcomes: Sequence[Outcome]) -> dict[str, list[str]]:
    """Return the scenarios whose faults struck at no try, and which did not."""
    fired = {one.scenario.name for one in outcomes if not one.unfired}
    return {one.scenario.name: one.unfired for one in outcomes if one.scenario.name not in fired}


def describe(outcomes: Sequence[Outcome]) -> str:
    """Return the longest gap of each scenario of one fault, by step and kind; of several, one line each."""
    single = [outcome for outcome in outcomes if len(outcome.scenario.faults) == 1]
    if len(single) < len(outcomes):
        return "pairs\n" + table(["scenario", "verdict", "gap s"], [_row(one) for one in outcomes])
    cells = {
        (f.step, one.scenario.story, f.kind): one for one in single for f in one.scenario.faults
    }
    rows = []
    for step, story in dict.fromkeys((step, story) for step, story, _ in cells):
        name = step if story == "plain" else f"{step} [{story}]"
        rows.append([name, *(_cell(cells.get((step, story, kind))) for kind in KINDS)])
    return "seconds without progress after the fault\n" + table(["step", *KINDS], rows)


def _row(outcome: Outcome) -> list[str]:
    return [outcome.scenario.name, outcome.verdict, f"{outcome.gap_s:.1f}"]


def _cell(outcome: Outcome | None) -> str:
    if outcome is None:
        return ""
    return f"{outcome.gap_s:.1f}" if outcome.verdict == "ok" else outcome.verdict
