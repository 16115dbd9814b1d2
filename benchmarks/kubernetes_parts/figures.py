"""From rounds and the checker's verdict to figures, tables and pictures. Pure."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence

from harness.pictures import Picture, Series
from harness.report import Report, Target, table
from harness.stats import percentile
from recovery_parts.tracker import Hit, Tracker

from kubernetes_parts.lanes import Lane, Lanes
from kubernetes_parts.rounds import GONE, Round, is_stuck
from shared.recovery import Recovery
from shared.testing.history import Verdict

DETECT_P95_S = 4.5
RECOVER_P95_S = 10.0
RECOVER_MAX_S = 15.0


def targets(given: argparse.Namespace) -> tuple[Target, ...]:
    """Return what a run with these options must reach."""
    gone = (
        Target("rounds", given.rounds, at_least=True),
        Target("detect_p95_s", DETECT_P95_S),
        Target("recover_p95_s", RECOVER_P95_S),
        Target("recover_max_s", RECOVER_MAX_S),
    )
    always = (
        Target("lost", 0),
        Target("doubled", 0),
        Target("zombie", 0),
        Target("user_errors", 0),
        Target("not_recovered", 0),
    )
    return (*(gone if given.rounds else ()), *always)


def add_rounds(report: Report, rounds: Sequence[Round]) -> None:
    """Enter how long the hit sessions needed, by kind of fault; figures without one's name are of nodes that are gone."""
    gone = [one for one in rounds if one.fault in GONE]
    report.add("rounds", len(gone))
    for name in ("hang", "cut"):
        report.add(f"rounds_{name}", sum(one.fault == name for one in rounds))
    _add_times(report, "", gone)
    for name in ("hang", "cut"):
        _add_times(report, f"_{name}", [one for one in rounds if one.fault == name])
    noticed = [one.not_ready_s for one in gone if one.not_ready_s is not None]
    if noticed:
        report.add("kubernetes_not_ready_s", percentile(noticed, 50))
    hits = [hit for one in rounds for hit in one.hits]
    report.add("hits", len(hits))
    report.add("hits_in_task", sum(hit.task is not None for hit in hits))
    report.add("not_recovered", sum(map(is_stuck, hits)))
    rows = [
        [
            f"{one.fault} {one.node}",
            str(len(_in_task(one.hits))),
            str(len(one.hits) - len(_in_task(one.hits))),
            *_spread(_detect(one.hits)),
            *_spread(_recover(one.hits)),
            "-" if one.not_ready_s is None else f"{one.not_ready_s:.0f}",
        ]
        for one in rounds
    ]
    head = ["fault", "in a task", "idle", "detect p50", "p95", "max", "recover p50", "p95", "max"]
    report.sections.append(
        "sessions hit, seconds from the fault\n" + table([*head, "Kubernetes: not ready"], rows)
    )


def _add_times(report: Report, name: str, rounds: Sequence[Round]) -> None:
    hits = [hit for one in rounds for hit in one.hits]
    for what, values in (("detect", _detect(hits)), ("recover", _recover(hits))):
        if values:
            report.add(f"{what}_p50_s{name}", percentile(values, 50))
            report.add(f"{what}_p95_s{name}", percentile(values, 95))
            report.add(f"{what}_max_s{name}", max(values))


def _in_task(hits: Iterable[Hit]) -> list[Hit]:
    return [hit for hit in hits if hit.task is not None and not hit.ended]


def _detect(hits: Iterable[Hit]) -> list[float]:
    return [hit.detect_s for hit in hits if hit.detect_s is not None]


def _recover(hits: Iterable[Hit]) -> list[float]:
    """Of those that had a task in hand: an idle session goes on when it is asked to, not before."""
    return [hit.recover_s for hit in _in_task(hits) if hit.recover_s is not None]


def _spread(values: Sequence[float]) -> list[str]:
    if not values:
        return ["-", "-", "-"]
    return [
        f"{value:.3g}" for value in (percentile(values, 50), percentile(values, 95), max(values))
    ]


def add_verdict(report: Report, verdict: Verdict, tracker: Tracker, refused: Sequence[str]) -> None:
    """Enter what the checker says, in the words of the figures.

    `lost`: results and work in files that are gone, workspaces of which their users were told that they are. `doubled`:
    anything twice or out of order. `zombie`: a write that a fence should have refused. `user_errors`: tasks that failed,
    were quarantined or refused though nothing was wrong with them.
    """
    report.add("accepted", verdict.accepted)
    report.add("finished", verdict.finished)
    report.add("lost", verdict.lost + tracker.losses)
    report.add("doubled", verdict.doubled + verdict.disordered)
    report.add("zombie", verdict.stale)
    report.add("user_errors", verdict.failed + verdict.quarantined + len(refused))
    report.notes += [f"{one.kind}: {one.subject}: {one.what}" for one in verdict.findings]
    report.notes += sorted(set(refused))[:5]


def add_rolled_back(report: Report, told: Sequence[Recovery]) -> None:
    """Enter how much work had to be done again, as the sessions' users were told."""
    if not told:
        return
    lost = [one.work_lost_s for one in told]
    report.add("told_recoveries", len(told))
    report.add("rolled_back_p50_s", percentile(lost, 50))
    report.add("rolled_back_max_s", max(lost))


def pictures(rounds: Sequence[Round]) -> list[Picture]:
    """Return what is drawn: all recoveries together, then the sessions of each round."""
    drawn: list[Picture] = []
    gone = [hit for one in rounds if one.fault in GONE for hit in _in_task(one.hits)]
    mended = [hit for hit in gone if hit.recover_s is not None]
    if mended:
        first = min(hit.at_s for hit in mended)
        drawn.append(
            Series(
                "a node gone: from the fault to the next acknowledged step, ms",
                [max((hit.recover_s or 0.0) * 1000, 0.1) for hit in mended],
                [hit.at_s - first for hit in mended],
                [("p95 to reach", RECOVER_P95_S * 1000), ("max to reach", RECOVER_MAX_S * 1000)],
            )
        )
    for number, one in enumerate(rounds, 1):
        lanes = [Lane(hit.detect_s, hit.recover_s, hit.task is not None) for hit in one.hits]
        drawn.append(Lanes(f"round {number}: {one.fault} {one.node}", lanes, one.not_ready_s))
    return drawn
