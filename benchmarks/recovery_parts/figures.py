"""From the tracker's hits and the checker's verdict to figures, tables and pictures. Pure."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from harness.pictures import Picture, Series
from harness.report import Report, Target, table
from harness.stats import percentile
from soak_parts.load import Load

from recovery_parts.tracker import Hit, Tracker
from shared.testing.history import Verdict

KINDS = (("kill", "worker killed"), ("node", "node killed"))
RECOVER_P95_S = 7.0
RECOVER_MAX_S = 15.0


def targets(given: argparse.Namespace) -> tuple[Target, ...]:
    """Return what a run with these options must reach."""
    if given.only == "sizes":
        return ()
    return (
        Target("kills", given.worker_kills, at_least=True),
        Target("node_kills", given.node_kills, at_least=True),
        Target("detect_p95_s", 1),
        Target("recover_p95_s", RECOVER_P95_S),
        Target("recover_max_s", RECOVER_MAX_S),
        Target("lost", 0),
        Target("user_errors", 0),
    )


def add_hits(report: Report, tracker: Tracker) -> None:
    """Enter how long the hit sessions needed; those whose task was in hand count, idle ones are told of apart."""
    rows = []
    for kind, name in KINDS:
        hits = tracker.in_task(kind)
        idle = [hit for hit in tracker.hits if hit.kind == kind and hit.task is None]
        detect = [hit.detect_s for hit in hits if hit.detect_s is not None]
        recover = [hit.recover_s for hit in hits if hit.recover_s is not None]
        rows.append([name, str(len(hits)), str(len(idle)), *_spread(detect), *_spread(recover)])
    report.sections.append(
        "sessions hit, seconds from the fault\n"
        + table(
            ["fault", "in a task", "idle", "detect p50", "p95", "max", "recover p50", "p95", "max"],
            rows,
        )
    )
    hits = tracker.in_task("kill") + tracker.in_task("node")
    for name, values in (
        ("detect", [hit.detect_s for hit in hits if hit.detect_s is not None]),
        ("recover", [hit.recover_s for hit in hits if hit.recover_s is not None]),
    ):
        if values:
            report.add(f"{name}_p50_s", percentile(values, 50))
            report.add(f"{name}_p95_s", percentile(values, 95))
            report.add(f"{name}_max_s", max(values))
    report.add("hits", len(hits))
    report.add("idle_hits", len(tracker.hits) - len(hits))
    report.add("not_recovered", sum(1 for hit in hits if hit.recover_s is None))


def _spread(values: Sequence[float]) -> list[str]:
    if not values:
        return ["-", "-", "-"]
    return [
        f"{value:.3g}" for value in (percentile(values, 50), percentile(values, 95), max(values))
    ]


def add_verdict(report: Report, verdict: Verdict, tracker: Tracker, load: Load) -> None:
    """Enter what the checker says. `lost` counts workspaces, too: one that was lost and told of is lost."""
    counts = verdict.counts()
    report.add("accepted", verdict.accepted)
    report.add("finished", verdict.finished)
    report.add("lost", counts.pop("lost") + tracker.losses)
    report.add("workspaces_lost", tracker.losses)
    report.add("user_errors", sum(counts.values()) + len(load.refused))
    for kind, count in counts.items():
        report.add(kind, count)
    report.add("refused", len(load.refused))
    report.notes += sorted(set(load.refused))[:5]
    report.notes += [f"{one.kind}: {one.subject}: {one.what}" for one in verdict.findings]


def add_faults(report: Report, kinds: Sequence[str]) -> None:
    """Enter how many faults there were."""
    report.add("kills", kinds.count("kill"))
    report.add("node_kills", kinds.count("node"))


def pictures(tracker: Tracker) -> list[Picture]:
    """Return what is drawn: recoveries by kind of fault."""
    drawn: list[Picture] = []
    for kind, name in KINDS:
        mended = [hit for hit in tracker.in_task(kind) if hit.recover_s is not None]
        if mended:
            drawn.append(
                _series(f"{name}: from the fault to the next acknowledged step, ms", mended)
            )
    return drawn


def _series(title: str, hits: Sequence[Hit]) -> Series:
    first = min(hit.at_s for hit in hits)
    return Series(
        title,
        [max((hit.recover_s or 0.0) * 1000, 0.1) for hit in hits],
        [hit.at_s - first for hit in hits],
        [("p95 to reach", RECOVER_P95_S * 1000), ("max to reach", RECOVER_MAX_S * 1000)],
    )
