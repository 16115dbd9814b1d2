"""The chaos lab's reports that are kept, as pages: docs/results/README.md, and a part of README.md. `./dev figures` writes them."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS = "docs/results"
BEGIN = "<!-- chaos: written by ./dev figures -->"
END = "<!-- /chaos -->"
ZEROES = ("lost", "dup", "fork", "stale", "zombie", "conserve")
RUNS = {
    "headline": "Embedded: 300 sessions, 10 virtual nodes",
    "headline-kubernetes": "On Kubernetes",
    "quiet": "Quiet: no fault at all",
}
"""Name of a run -> how it is called. Others are not published."""
SHOWN = (
    "sessions", "sessions_hit", "mttd_s", "detect_p95_s", "mttr_s", "recover_p50_s", "recover_p95_s", "recover_max_s",
    "error_share", "users_with_error", "queue_gap_s",
)  # fmt: skip


@dataclass(frozen=True)
class Published:
    """One report that is kept."""

    folder: str
    run: str
    seed: int
    commit: str
    verdict: str
    figures: dict[str, float]
    end_s: float
    false_per_node_hour: float


def find(root: Path) -> list[Published]:
    """Return all reports that are kept, by run and seed."""
    found = [_read(path) for path in (root / RESULTS).glob("*/report.json")]
    return sorted((one for one in found if one.run in RUNS), key=lambda one: (one.run, one.seed))


def _read(path: Path) -> Published:
    said: dict[str, Any] = json.loads(path.read_text())
    return Published(
        folder=path.parent.name,
        run=said["run"],
        seed=said["seed"],
        commit=said["commit"],
        verdict=said["verdict"]["verdict"],
        figures=said["figures"],
        end_s=said["end_s"],
        false_per_node_hour=said["verdict"]["false_per_node_hour"],
    )


def results_page(root: Path) -> str:
    """Return the page that lists all reports."""
    found = find(root)
    lines = [
        "# Reports of the chaos lab",
        "From real runs; written by `./dev figures`. What the runs do and what each figure means:",
        "[the chaos lab](../chaos.md). Times in seconds.",
    ]
    for run, title in RUNS.items():
        of_run = [one for one in found if one.run == run]
        if of_run:
            lines += ["", f"## {title}", *(_quiet(of_run) if run == "quiet" else _headline(of_run))]
    for path in sorted((root / RESULTS).glob("*/faults.md")):
        lines += ["", f"## Each fault alone ({path.parent.name})", *path.read_text().splitlines()]
    return "\n".join(lines) + "\n"


def _headline(found: Sequence[Published]) -> list[str]:
    heads = ["seed", *(f"`{name}`" for name in SHOWN), "lost … conserve", "verdict"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for one in found:
        cells = [f"[{one.seed}]({one.folder}/README.md)"]
        cells += [_number(one.figures.get(name)) for name in SHOWN]
        cells += [_number(_sum_of(one, ZEROES)), one.verdict]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _quiet(found: Sequence[Published]) -> list[str]:
    lines = [
        "| seed | minutes | owners fenced | false fences an hour and node | verdict |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| [{one.seed}]({one.folder}/README.md) | {one.end_s / 60:.0f} | {_number(one.figures.get('fences'))} | "
        f"{one.false_per_node_hour:.2f} | {one.verdict} |"
        for one in found
    ]
    return lines


def readme_block(root: Path) -> str:
    """Return what stands between the marks of README.md; nothing where there is no report."""
    found = find(root)
    columns = [
        (title, of_run)
        for title, run in (("embedded", "headline"), ("on Kubernetes", "headline-kubernetes"))
        if (of_run := [one for one in found if one.run == run])
    ]
    if not columns:
        return ""
    rows = [
        ("sessions held; hit when 30 % of the nodes are killed", _sizes),
        ("… until it was noticed, P95", lambda runs: _seconds(runs, "detect_p95_s")),
        ("… until the next acknowledged step, P50", lambda runs: _seconds(runs, "recover_p50_s")),
        ("… P95", lambda runs: _seconds(runs, "recover_p95_s")),
        ("… the slowest session", lambda runs: _seconds(runs, "recover_max_s")),
        ("calls in the two minutes after it that failed or took over 30 s", _errors),
        ("queue's leader killed: longest gap between acceptances", lambda runs: _seconds(runs, "queue_gap_s")),
        ("lost, doubled, forked, stale, written by zombies, without an end", _zeroes),
        ("verdict true", lambda runs: f"{sum(one.verdict == 'true' for one in runs)} of {len(runs)}"),
    ]  # fmt: skip
    heads = [f"{title}, {len(runs)} seed{'s' * (len(runs) > 1)}" for title, runs in columns]
    lines = [
        "",
        "### Chaos",
        "Users work on while 30 % of the nodes are killed, then the queue's primary, then two nodes and a primary within a",
        "second, then managers in a burst: [the chaos lab](docs/chaos.md). Median of the seeds (worst in brackets);",
        f"[all reports]({RESULTS}/README.md), with histories and verdicts.",
        "",
        "| `./dev bench chaos` | " + " | ".join(heads) + " |",
        "|---|" + "---|" * len(columns),
        *(
            f"| {name} | " + " | ".join(cell(runs) for _, runs in columns) + " |"
            for name, cell in rows
        ),
    ]
    return "\n".join(lines) + "\n"


def _seconds(runs: Sequence[Published], name: str) -> str:
    values = [one.figures[name] for one in runs if name in one.figures]
    if not values:
        return "-"
    return f"{statistics.median(values):.2g} s ({max(values):.2g}{_of(values, runs)})"


def _of(values: Sequence[float], runs: Sequence[Published]) -> str:
    """Say of how many seeds a figure is, where that is not all: the worst may be one that has none."""
    return "" if len(values) == len(runs) else f"; {len(values)} of {len(runs)} seeds"


def _sizes(runs: Sequence[Published]) -> str:
    hit = [one.figures.get("sessions_hit", 0) for one in runs]
    return f"{min(one.figures['sessions'] for one in runs):g}; {min(hit):g} to {max(hit):g}"


def _errors(runs: Sequence[Published]) -> str:
    shares = [one.figures["error_share"] for one in runs if "error_share" in one.figures]
    if not shares:
        return "-"
    return f"{statistics.median(shares):.2%} ({max(shares):.2%}{_of(shares, runs)})"


def _zeroes(runs: Sequence[Published]) -> str:
    return _number(sum(_sum_of(one, ZEROES) for one in runs))


def _sum_of(one: Published, names: Sequence[str]) -> float:
    return sum(one.figures.get(name, 0) for name in names)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}" if value < 1000 else f"{value:.0f}"
