"""From losses of pods on a volume to figures, a table and pictures. Pure."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from harness.pictures import Picture, Series
from harness.report import Report, Target, table
from harness.stats import percentile

from kubernetes_parts.remounts import AT_ONCE, HOWS, Remount

REMOUNT_P95_S = 10.0
NODE_P95_S = 15.0
"""4 s to notice, 5 s in which who was cut off stands still, and a pod that may have to be looked for."""
HARM = ("pvc_zombie_writes", "pvc_lost_writes", "pvc_files_differ", "pvc_not_told")
"""What must not be, however slow the machine is."""


def targets(given: argparse.Namespace) -> tuple[Target, ...]:
    """Return what a run with these options must reach."""
    found = [Target(name, 0) for name in HARM]
    if given.nows or given.kills:
        found.append(Target("pvc_remount_p95_s", REMOUNT_P95_S))
    for how in ("poweroff", "cut"):
        if getattr(given, f"{how}s"):
            found.append(Target(f"pvc_remount_p95_s_{how}", NODE_P95_S))
    return tuple(found)


def enter(report: Report, done: Sequence[Remount], on_disk: Sequence[Remount] = ()) -> None:
    """Enter all figures; those of time without a kind's name are of pods that were taken at once, by hand.

    Args:
        report: where to.
        done: on a volume that all nodes mount.
        on_disk: on one that a single node has at a time.
    """
    report.add("pvc_rounds", len(done) + len(on_disk))
    _add_times(report, "", [one for one in done if one.how in AT_ONCE])
    for how in HOWS:
        _add_times(report, f"_{how}", [one for one in done if one.how == how])
        _add_times(report, f"_disk_{how}", [one for one in on_disk if one.how == how])
    freed = [one.freed_s for one in on_disk if one.freed_s is not None]
    if freed:
        report.add("pvc_disk_freed_s", max(freed))
    _add_table(report, "seconds from the loss of a pod", done)
    if on_disk:
        _add_table(report, "the same, on a disk that one node has at a time", on_disk)
    _add_harm(report, [*done, *on_disk])


def _add_harm(report: Report, done: Sequence[Remount]) -> None:
    report.add("pvc_zombie_writes", sum(one.zombie_writes for one in done))
    report.add("pvc_lost_writes", sum(one.lost_lines for one in done))
    report.add("pvc_files_differ", sum(len(one.differences) for one in done))
    report.add("pvc_not_told", sum(one.status != "interrupted" for one in done))
    report.notes += [f"{one.how}: {what}" for one in done for what in one.differences[:5]]


def _add_table(report: Report, title: str, done: Sequence[Remount]) -> None:
    rows = [
        [how, str(len(mine)), *_spread([one.took_s for one in mine]), *_spread(_revoked(mine))]
        for how in HOWS
        if (mine := [one for one in done if one.how == how])
    ]
    head = ["pod lost by", "rounds", "goes on p50", "p95", "max", "revoked p50", "p95", "max"]
    report.sections.append(f"{title}\n" + table(head, rows))


def _add_times(report: Report, name: str, done: Sequence[Remount]) -> None:
    if done:
        took = [one.took_s for one in done]
        report.add(f"pvc_remount_p50_s{name}", percentile(took, 50))
        report.add(f"pvc_remount_p95_s{name}", percentile(took, 95))
        report.add(f"pvc_remount_max_s{name}", max(took))


def _revoked(done: Sequence[Remount]) -> list[float]:
    return [one.revoked_s for one in done if one.revoked_s is not None]


def _spread(values: Sequence[float]) -> list[str]:
    if not values:
        return ["-", "-", "-"]
    return [
        f"{value:.3g}" for value in (percentile(values, 50), percentile(values, 95), max(values))
    ]


def pictures(done: Sequence[Remount]) -> list[Picture]:
    """Return one picture of each kind of loss."""
    drawn: list[Picture] = []
    for how in HOWS:
        mine = [one for one in done if one.how == how]
        if mine:
            reach = {
                "now": REMOUNT_P95_S,
                "kill": REMOUNT_P95_S,
                "poweroff": NODE_P95_S,
                "cut": NODE_P95_S,
            }.get(how)
            drawn.append(
                Series(
                    f"{how}: from the loss of a pod to the first instruction in the next, ms",
                    [one.took_s * 1000 for one in mine],
                    [float(number) for number in range(len(mine))],
                    [] if reach is None else [("p95 to reach", reach * 1000)],
                )
            )
    return drawn
