"""What every benchmark program does around its measuring: options, progress, the last line, exit codes."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

from agent_sandbox.embedded.fresh import fresh_folder as fresh_folder_of
from harness import pictures
from harness.pictures import Picture
from harness.report import Report, figures_table
from shared import logs
from shared.errors import ServiceError

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
EXIT_NOT_MEASURED = EXIT_MISSED = 1
EXIT_INTERRUPTED = 130

_began = time.monotonic()


fresh_folder = partial(fresh_folder_of, "bench")
"""Make a folder that is gone at the end. Sandboxes with a uid of their own get through it."""


class CannotMeasure(Exception):
    """The benchmark yields no figures; the message says why."""


def say(text: str) -> None:
    """Tell people how far it is."""
    print(f"[{time.monotonic() - _began:6.1f} s] {text}", file=sys.stderr, flush=True)


def add_common_options(parser: argparse.ArgumentParser) -> None:
    """Add what every benchmark takes."""
    parser.add_argument(
        "--save",
        action="store_true",
        help="keep the figures (and pictures) under benchmarks/results/",
    )
    parser.add_argument(
        "--isolation",
        default="auto",
        help="class of the sandboxes; auto: the strongest that this machine has",
    )


def run(
    measure: Callable[[], Awaitable[tuple[Report, Sequence[Picture]]]],
    *,
    save: bool,
    part: str = "",
    must_reach: bool = False,
) -> int:
    """Measure, report, and return the exit code: no figures are a failure, a missed target is one where it must be met.

    Args:
        measure: returns the report and what to draw.
        save: keep both under benchmarks/results/.
        part: name of the only part that was measured; empty: all.
        must_reach: a target that is missed or was not measured is a failure, too: the targets are promises, not speeds.
    """
    logs.configure(service="bench", level="warning")
    try:
        with contextlib.redirect_stdout(sys.stderr):  # the last line of stdout is the result's
            report, drawn = asyncio.run(_measured(measure))
    except (KeyboardInterrupt, asyncio.CancelledError):
        say("interrupted")
        return EXIT_INTERRUPTED
    except (CannotMeasure, ServiceError, OSError) as exc:
        say(f"could not measure: {exc}")
        return EXIT_NOT_MEASURED
    if save:
        for path in keep(report, drawn, RESULTS, part):
            say(f"kept {path.relative_to(ROOT)}")
    for section in report.sections:
        print(section + "\n")
    print(figures_table(report))
    for note in report.notes:
        print(f"note: {note}")
    for target in report.missed():
        print(
            f"MISSED: {target.figure} is {report.figures[target.figure]:g}, to reach: {target.describe()}"
        )
    unmeasured = report.unmeasured() if must_reach else []
    for target in unmeasured:
        print(f"MISSED: {target.figure} was not measured, to reach: {target.describe()}")
    print(report.line(), flush=True)
    return EXIT_MISSED if must_reach and (report.missed() or unmeasured) else 0


async def _measured(
    measure: Callable[[], Awaitable[tuple[Report, Sequence[Picture]]]],
) -> tuple[Report, Sequence[Picture]]:
    """Measure; SIGTERM ends it as SIGINT does, so that nothing is left running."""
    me = asyncio.current_task()
    assert me is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, me.cancel)
    return await measure()


def keep(report: Report, drawn: Sequence[Picture], folder: Path, part: str = "") -> list[Path]:
    """Write figures and pictures; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = "-".join(word for word in (report.bench, part, report.commit) if word)
    figures = folder / f"{stem}.json"
    body = report.to_json() | {
        "notes": report.notes,
        "sections": [text.splitlines() for text in report.sections],
    }
    figures.write_text(json.dumps(body, indent=2, ensure_ascii=False) + "\n")
    files = [figures]
    if drawn:
        files.append(folder / f"{stem}.svg")
        files[-1].write_text(pictures.draw(drawn))
    return files
