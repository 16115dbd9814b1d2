"""From the history, the load and the faults to figures, sentences and a picture. Pure."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence

from harness.report import Report, Target, table
from harness.stats import percentile
from harness.timelines import Field, Timeline

from shared.messages import Interruption
from shared.testing.history import KINDS, History, Verdict
from soak_parts.load import Sent
from soak_parts.nemesis import Fault

WINDOW_S = 5.0
FULL_S = 300.0
"""The bounds on counts are those of a run of this length; a shorter one must reach its share."""
GAP_TOLD_S = 3.0
"""A longer time without a claim is told with what happened around it."""


def targets(seconds: float) -> tuple[Target, ...]:
    """Return what a run of this length must reach."""
    share = min(1.0, seconds / FULL_S)
    return (
        Target("accepted", round(10_000 * share), at_least=True),
        Target("kills_in_task", round(200 * share), at_least=True),
        Target("leader_kills", 1, at_least=True),
        *(Target(kind, 0) for kind in KINDS),
        Target("refused", 0),
    )


def add_verdict(report: Report, verdict: Verdict, history: History) -> None:
    """Enter what the checker says."""
    report.add("accepted", verdict.accepted)
    report.add("finished", verdict.finished)
    for kind, count in verdict.counts().items():
        report.add(kind, count)
    report.add("unknown", verdict.unknown)
    report.add("unseen", history.unseen)
    report.add("versions", len(history.versions))
    report.add("begins", len(history.begins))
    report.add("journals", len(history.journals))
    report.notes += [f"{one.kind}: {one.subject}: {one.what}" for one in verdict.findings]


def interruptions(history: History) -> dict[tuple[str, int], Interruption]:
    """Return every loss of a worker in mid-task, by worker and epoch, as records and results tell it."""
    found: dict[tuple[str, int], Interruption] = {}
    told = [version.record.interruptions for version in history.versions]
    told += [outcome.result.interruptions for outcome in history.outcomes]
    for one in (one for some in told for one in some):
        known = found.get((one.worker, one.epoch))
        if known is None or known.recovered_ms is None:
            found[one.worker, one.epoch] = one
    return found


def add_faults(report: Report, faults: Sequence[Fault], history: History) -> None:
    """Enter the faults, and how long the system needed to notice and to go on."""
    counts = Counter(fault.kind for fault in faults)
    lost = {worker: one for (worker, _), one in interruptions(history).items()}
    for kind, name in (("kill", "kills"), ("stop", "stops")):
        hit = [fault for fault in faults if fault.kind == kind and fault.victim in lost]
        report.add(name, counts[kind])
        report.add(f"{name}_in_task", len(hit))
        found = [lost[fault.victim] for fault in hit]
        detect = [one.revoked_ms - fault.at_ms for one, fault in zip(found, hit, strict=True)]
        recover = [
            one.recovered_ms - fault.at_ms
            for one, fault in zip(found, hit, strict=True)
            if one.recovered_ms is not None
        ]
        for what, values in (("detect", detect), ("recover", recover)):
            if values:
                report.add(f"{name}_{what}_p50_ms", percentile(values, 50))
                report.add(f"{name}_{what}_p95_ms", percentile(values, 95))
                report.add(f"{name}_{what}_max_ms", max(values))
    report.add("manager_kills", counts["manager"])
    report.add("leader_kills", counts["leader"])
    if counts["node"] or counts["zygote"]:
        report.add("node_kills", counts["node"])
        report.add("zygote_kills", counts["zygote"])
    causes = Counter(one.cause for one in interruptions(history).values())
    rows = [[cause, str(count)] for cause, count in causes.most_common()]
    report.sections.append(
        "workers lost in mid-task, by what was seen\n" + table(["cause", "times"], rows)
    )


def add_claim_gap(
    report: Report, history: History, faults: Sequence[Fault], span_ms: tuple[float, float]
) -> None:
    """Enter the longest time without a claim while there was load, and what happened around it."""
    began, ended = span_ms
    claims = {v.record.claimed_ms for v in history.versions if v.record.owner is not None}
    times = sorted({began, ended, *(at for at in claims if began <= at <= ended)})
    gaps = sorted(((after - before) / 1000, before) for before, after in itertools.pairwise(times))
    report.add("claim_gap_s", gaps[-1][0])
    for gap_s, before in gaps[-3:]:
        if gap_s < GAP_TOLD_S:
            continue
        near = [
            f"{fault.kind} of {fault.victim} at {(fault.at_ms - before) / 1000:+.2f} s"
            for fault in faults
            if fault.kind != "kill" and -10_000 < fault.at_ms - before < gap_s * 1000
        ]
        report.notes.append(
            f"no claim for {gap_s:.2f} s from {(before - began) / 1000:.1f} s on; around it: {', '.join(near) or 'kills only'}"
        )


def add_latencies(report: Report, sent: Iterable[Sent]) -> None:
    """Enter how long tasks took beyond their own sleep."""
    done = [one for one in sent if one.finished_s and one.accepted_s]
    for name, chosen in (
        ("one_shot", [one for one in done if one.one_shot]),
        ("session_task", [one for one in done if not one.one_shot]),
    ):
        values = [one.latency_s * 1000 for one in chosen]
        if values:
            report.add(f"{name}_p50_ms", percentile(values, 50))
            report.add(f"{name}_p99_ms", percentile(values, 99))
            report.add(f"{name}_max_ms", max(values))


def timeline(sent: Sequence[Sent], faults: Sequence[Fault]) -> Timeline:
    """Return the picture of the run, up to the last result."""
    end_s = max((one.finished_s for one in sent), default=0.0)
    done = [one for one in sent if one.finished_s and one.accepted_s]
    windows: dict[int, list[float]] = {}
    for one in done:
        windows.setdefault(int(one.finished_s / WINDOW_S), []).append(
            max(one.latency_s * 1000, 0.1)
        )
    marks: dict[str, list[float]] = {}
    for fault in faults:
        marks.setdefault(fault.kind, []).append(fault.at_s)
    return Timeline(
        end_s,
        [
            Field(
                "tasks each second",
                {
                    "accepted": _per_second(
                        [one.accepted_s for one in sent if one.accepted_s], end_s
                    ),
                    "finished": _per_second([one.finished_s for one in done], end_s),
                },
            ),
            Field(
                f"publish to result beyond the task's own time, ms, by {WINDOW_S:g} s",
                {
                    f"p{rank}": [
                        ((number + 0.5) * WINDOW_S, percentile(values, rank))
                        for number, values in sorted(windows.items())
                    ]
                    for rank in (50, 99)
                },
                logarithmic=True,
            ),
        ],
        marks,
    )


def _per_second(times: Iterable[float], end_s: float) -> list[tuple[float, float]]:
    counts = Counter(int(at) for at in times)
    return [(second + 0.5, float(counts[second])) for second in range(int(end_s) + 1)]
