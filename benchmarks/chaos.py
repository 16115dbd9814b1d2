"""The headline experiment of the chaos lab: hundreds of sessions held while nodes and the queue's primary are killed.

    ./dev bench chaos --seed N [--short] [--on kubernetes] [--out FOLDER] [--save]

It runs `agent-sandbox chaos run headline`, and gives its figures as every benchmark does. What they mean: docs/chaos.md.
The report and the raw history lie in FOLDER; with --save a report of a whole run is kept under docs/results/ as well, where
`./dev figures` finds it. Exits 1 if a bound is missed or the verdict is not true.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness import chaos_reports
from harness.pictures import Picture
from harness.report import Report, Target
from harness.running import ROOT, CannotMeasure, add_common_options, run, say

FIGURES = (
    "sessions", "bound_at_fault", "sessions_hit", "users_with_error", "disconnects", "reattached_without_gap",
    "detect_p95_s", "recover_p50_s", "recover_p95_s", "recover_max_s", "error_share", "queue_gap_s", "lost", "dup", "fork",
    "stale", "zombie", "conserve", "verdict",
)  # fmt: skip
"""What a run must have measured."""
JUDGED = (0, 1, 3)
"""Exit codes of the lab with a verdict: true, false, unknown."""
LEAVE_S = 60.0
"""Longest time that an interrupted run takes to leave nothing running."""


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="bench chaos", description=(__doc__ or "").splitlines()[0]
    )
    add_common_options(parser)
    parser.add_argument("--seed", type=int, default=1, help="of load and faults (1)")
    parser.add_argument(
        "--short", action="store_true", help="60 sessions, two faults, a minute and a half of load"
    )
    parser.add_argument(
        "--on",
        choices=("embedded", "kubernetes"),
        default="embedded",
        help="kubernetes: on the system of the kubeconfig's context",
    )
    parser.add_argument("--out", type=Path, default=None, help="new folder for history and report")
    parser.add_argument(
        "--history-mb",
        type=float,
        default=4.0,
        help="--save keeps the raw history if it is no larger, compressed (4)",
    )
    return parser.parse_args()


async def measure(given: argparse.Namespace) -> tuple[Report, Sequence[Picture]]:
    """Run the experiment.

    Raises:
        CannotMeasure: it was over before it had all figures.
    """
    name = f"chaos-{given.on}-{'short-' if given.short else ''}{given.seed}-{time.strftime('%Y%m%d-%H%M%S')}"
    out: Path = given.out or Path(name)
    # A program of its own: this module has the name of the lab's package.
    words = ["run", "headline", f"--seed={given.seed}", f"--out={out}", "--quiet"]
    words += [
        f"--on={given.on}",
        f"--isolation={given.isolation}",
        *(["--short"] if given.short else []),
    ]
    code = await _run("-m", "chaos", *words)
    if code not in JUDGED:
        raise CannotMeasure(f"the lab ended with exit code {code}")
    say(f"report: {out / 'report.html'}")
    found = json.loads((out / "report.json").read_text())
    if given.save and found["run"] in chaos_reports.RUNS:
        await _publish(out, found, given.history_mb)
    return to_report(found), ()


async def _publish(out: Path, found: dict[str, Any], history_mb: float) -> None:
    """Keep the report for readers, in the place of an earlier one of the same seed.

    Raises:
        CannotMeasure: it can't be kept.
    """
    name = f"{found['run']}-{found['seed']}"
    results = ROOT / chaos_reports.RESULTS
    results.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".kept-", dir=results) as place:
        kept = Path(place) / "report"
        if await _run("-m", "chaos", "keep", str(out), str(kept), f"--history-mb={history_mb:g}"):
            raise CannotMeasure(f"the report can't be kept: {out}")
        for earlier in results.glob(f"{name}-*"):
            shutil.rmtree(earlier)
        kept.rename(results / f"{name}-{found['commit']}")


async def _run(*words: str) -> int:
    lab = await asyncio.create_subprocess_exec(sys.executable, *words, stdout=sys.stderr)
    try:
        return await lab.wait()
    except asyncio.CancelledError:
        if lab.returncode is None:
            lab.terminate()  # it leaves nothing running
            async with asyncio.timeout(LEAVE_S):
                await lab.wait()
        raise


def to_report(found: dict[str, Any]) -> Report:
    """Return the figures as benchmarks give them.

    Raises:
        CannotMeasure: one of them is not there.
    """
    figures, verdict = found["figures"], found["verdict"]
    if lacking := [name for name in FIGURES if name not in figures]:
        raise CannotMeasure(f"not measured: {', '.join(lacking)}")
    targets = [
        Target(name, target["reach"], at_least=target["at_least"])
        for name, target in found["targets"].items()
    ]
    report = Report("chaos", found["commit"], found["machine"], targets)
    report.add("seed", found["seed"])
    for name, value in figures.items():
        report.add(name, value)
    report.notes += [
        f"{one['kind'].upper()}: {one['session']}: {one['what']}" for one in verdict["findings"]
    ]
    report.notes += [f"unknown: {why}" for why in verdict["unknowns"]]
    report.notes += list(found["measured"]["errors"])
    if found["think"] > 1:
        report.notes.append(f"too busy a machine: users thought {found['think']:.2f} times longer")
    return report


def main() -> int:
    """Run the benchmark; return the exit code."""
    given = parse()
    return run(lambda: measure(given), save=False, must_reach=True)  # the whole report is kept


if __name__ == "__main__":
    sys.exit(main())
