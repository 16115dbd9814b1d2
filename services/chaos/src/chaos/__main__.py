"""`python -m chaos`, which `agent-sandbox chaos` starts: runs experiments, judges histories, compares reports."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
import time
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from rich.console import Console
from rich.table import Table

from chaos import app, in_turn
from chaos.adapters.keep import keep, keep_table
from chaos.adapters.kubernetes import Where
from chaos.core.criteria import together
from chaos.core.report.compare import compare
from chaos.core.report.data import Findings
from chaos.nemesis import FAULTS
from chaos.options import driver_of, parse, scenario_of, size_of
from shared import logs
from shared.errors import ServiceError

EXIT_FALSE, EXIT_UNKNOWN, EXIT_USAGE, EXIT_SYSTEM, EXIT_INTERRUPTED = 1, 3, 2, 125, 130
_began = time.monotonic()
T = TypeVar("T")


def main(words: Sequence[str]) -> int:
    """Run the command line; return the exit code."""
    given = parse(words)
    logs.configure(service="chaos", level="error")
    # Clients write to servers that were killed: what this run is for is no news.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    try:
        match given.verb:
            case "run":
                return _run(given)
            case "judge":
                return _conclude(app.judge_folder(given.folder), given.folder)
            case "keep":
                return _keep(given)
            case "compare":
                return _compare(given.a, given.b)
            case _:
                for name in FAULTS:
                    print(name)  # noqa: T201 - what was asked for
                return 0
    except (KeyboardInterrupt, asyncio.CancelledError):
        say(
            "aborted: nothing is left running; `agent-sandbox chaos judge FOLDER` judges what there is"
        )
        return EXIT_INTERRUPTED
    except (ServiceError, OSError, ValueError) as exc:
        say(f"{exc}")
        return EXIT_SYSTEM


def _run(given: argparse.Namespace) -> int:
    if given.what == "faults":
        return _run_faults(given)
    scenario = scenario_of(given)
    out = given.out or Path(f"chaos-{scenario.name}-{given.seed}-{time.strftime('%Y%m%d-%H%M%S')}")
    is_live = sys.stderr.isatty() and not (given.quiet or given.json)
    where = Where(context=given.context, driver=driver_of(given))
    order = app.Order(
        scenario=scenario,
        seed=given.seed,
        out=out,
        isolation=given.isolation,
        where=where if given.on == "kubernetes" else None,
        is_live=is_live,
    )
    found = asyncio.run(_ended_by_signals(app.run(order, say)))
    if given.json:
        print(msgspec.json.encode(found.figures).decode())  # noqa: T201 - what was asked for
    return _conclude(found, out)


def _run_faults(given: argparse.Namespace) -> int:
    out = given.out or Path(f"chaos-faults-{given.seed}-{time.strftime('%Y%m%d-%H%M%S')}")
    order = in_turn.Round(
        faults=given.only or tuple(FAULTS),
        seed=given.seed,
        out=out,
        size=size_of(given),
        isolation=given.isolation,
    )
    rows = asyncio.run(_ended_by_signals(in_turn.run_each(order, say)))
    print((out / in_turn.TABLE).read_text(), end="")  # noqa: T201 - what was asked for
    outcome = together([row.outcome for row in rows])
    return {"pass": 0, "fail": EXIT_FALSE, "unknown": EXIT_UNKNOWN}[outcome]


async def _ended_by_signals(work: Coroutine[Any, Any, T]) -> T:
    """Run; SIGINT and SIGTERM end it, once: a second one must not disturb the end, which leaves nothing running."""
    me = asyncio.current_task()
    assert me is not None
    loop = asyncio.get_running_loop()

    def end() -> None:
        if not me.cancelling():
            say("ending: what was started is taken down")
            me.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end)
    return await work


def _conclude(found: Findings, folder: Path) -> int:
    """Tell people what came out; return the exit code."""
    console = Console(stderr=True)
    table = Table("figure", "value", "to reach", "")
    for name, value in found.figures.items():
        target = found.targets.get(name)
        bound = "" if target is None else f"{'≥' if target.at_least else '≤'} {target.reach:g}"
        state = "" if target is None else "reached" if target.is_met(value) else "MISSED"
        table.add_row(name, f"{value:g}", bound, state)
    console.print(table)
    for one in found.verdict.findings:
        console.print(f"{one.kind.upper()}: {one.session}: {one.what}", markup=False)
    for why in found.verdict.unknowns:
        console.print(f"unknown: {why}", markup=False)
    for error in found.measured.errors:
        console.print(f"user error: {error}", markup=False)
    console.print(f"verdict: {found.verdict.verdict}; report: {folder / app.PAGE}", markup=False)
    return {"true": 0, "false": EXIT_FALSE, "unknown": EXIT_UNKNOWN}[found.verdict.verdict]


def _keep(given: argparse.Namespace) -> int:
    if (given.folder / in_turn.TABLE).exists():
        files = keep_table(given.folder, given.into, (in_turn.TABLE, in_turn.DATA))
        say(", ".join(map(str, files)))
        return 0
    found = app.judge_folder(given.folder)
    files = keep(found, given.folder, given.into, int(given.history_mb * 1e6))
    for path in files:
        say(f"{path}: {path.stat().st_size / 1e3:.0f} kB")
    return 0


def _compare(a: Path, b: Path) -> int:
    first, second = (
        msgspec.json.decode(
            (path / app.DATA if path.is_dir() else path).read_bytes(), type=Findings
        )
        for path in (a, b)
    )
    table = Table(
        "figure", f"{first.run} {first.seed}", f"{second.run} {second.seed}", "change", ""
    )
    for row in compare(first, second):
        change = "" if row.change is None else f"{row.change:+.0%}"
        cells = ["-" if value is None else f"{value:g}" for value in (row.a, row.b)]
        table.add_row(row.name, *cells, change, row.state)
    Console().print(table)
    return 0


def say(words: str) -> None:
    """Tell people how far it is."""
    print(f"[{time.monotonic() - _began:6.1f} s] {words}", file=sys.stderr, flush=True)  # noqa: T201 - for people


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
