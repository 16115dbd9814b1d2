"""`python -m chaos`, which `agent-sandbox chaos` starts: runs experiments, judges histories, compares reports."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
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
from chaos.adapters.keep import keep
from chaos.adapters.kubernetes import Where
from chaos.core.criteria import together
from chaos.core.driver import NODE, Templates
from chaos.core.report.compare import compare
from chaos.core.report.data import Findings
from chaos.core.scenario import (
    HEADLINE,
    KUBERNETES,
    SHORT,
    Scenario,
    Size,
    alone,
    fitted,
    quiet,
)
from chaos.nemesis import FAULTS
from chaos.nemesis.kubernetes import KUBE_FAULTS
from shared import logs
from shared.errors import ServiceError
from shared.testing.node_faults import FAULTS_VARIABLE

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


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="agent-sandbox chaos", description="The chaos lab.")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="COMMAND")
    run = verbs.add_parser("run", help="run an experiment on a cluster of its own")
    run.add_argument(
        "what",
        help="headline; quiet: no fault at all; the name of one fault (`chaos faults`); faults: each alone, in turn",
    )
    run.add_argument("--seed", type=int, default=1, help="everything is drawn from it (1)")
    run.add_argument(
        "--short",
        action="store_true",
        help="headline: 60 sessions, two faults, two minutes of load",
    )
    run.add_argument("--sessions", type=int, help="another number of sessions")
    run.add_argument("--nodes", type=int, help="another number of virtual nodes (10)")
    run.add_argument(
        "--stock", type=int, help="another number of workers that wait (in proportion to sessions)"
    )
    run.add_argument("--one-shots", type=float, help="another rate of one-shots, each second (8)")
    run.add_argument("--seconds", type=float, help="quiet: length (600)")
    run.add_argument(
        "--only", action="append", choices=tuple(FAULTS), help="faults: this one; again for more"
    )
    run.add_argument("--out", type=Path, help="new folder for history and report")
    run.add_argument(
        "--isolation", default="auto", help="class of the sandboxes; auto: the strongest there is"
    )
    run.add_argument(
        "--on",
        choices=("embedded", "kubernetes"),
        default="embedded",
        help="kubernetes: headline, quiet or a fault on the system of the kubeconfig's context",
    )
    run.add_argument("--context", help="kubernetes: another context")
    run.add_argument(
        "--node-down",
        metavar="COMMAND",
        help=f"kubernetes: takes a node down, as 'docker kill {{node}}' (${FAULTS_VARIABLE} poweroff {{node}})",
    )
    run.add_argument(
        "--node-up", metavar="COMMAND", help="kubernetes: brings it back, as 'docker start {node}'"
    )
    run.add_argument("--json", action="store_true", help="print the figures as one line of JSON")
    run.add_argument("--quiet", action="store_true", help="no live progress, lines only")
    judge = verbs.add_parser(
        "judge", help="judge a history again, also one whose run was aborted or crashed"
    )
    judge.add_argument("folder", type=Path)
    kept = verbs.add_parser(
        "keep", help="write report, pictures and compressed history of a run where others find them"
    )
    kept.add_argument("folder", type=Path, help="of the run")
    kept.add_argument("into", type=Path, help="new folder")
    kept.add_argument(
        "--history-mb",
        type=float,
        default=4.0,
        help="a history that is larger, compressed, is left out (4)",
    )
    two = verbs.add_parser("compare", help="compare the reports of two runs")
    two.add_argument("a", type=Path)
    two.add_argument("b", type=Path)
    verbs.add_parser("faults", help="list the faults")
    given = parser.parse_args(words)
    if given.verb == "run" and given.what not in ("headline", "quiet", "faults", *FAULTS):
        parser.error(
            f"run: headline, quiet, faults or a fault expected; faults: {', '.join(FAULTS)}"
        )
    if given.verb == "run" and given.on == "kubernetes":
        if given.what not in ("headline", "quiet", *KUBE_FAULTS):
            parser.error(f"run on kubernetes: headline, quiet, {', '.join(KUBE_FAULTS)} expected")
        driver = _driver(given)
        if driver is not None and (problem := driver.problem()):
            parser.error(f"--node-{problem}")
    return given


def _driver(given: argparse.Namespace) -> Templates | None:
    """Return how nodes are failed; None: they are not, their pods are deleted instead."""
    known = os.environ.get(FAULTS_VARIABLE, "")
    down = given.node_down or (f"{known} poweroff {NODE}" if known else "")
    up = given.node_up or (f"{known} start {NODE}" if known else "")
    return Templates(down=down, up=up) if down or up else None


def scenario_of(given: argparse.Namespace) -> Scenario:
    """Return the experiment that was asked for."""
    on_kube = given.on == "kubernetes"
    match given.what:
        case "headline" if on_kube:
            scenario = KUBERNETES
        case "headline":
            scenario = SHORT if given.short else HEADLINE
        case "quiet":
            scenario = quiet(given.seconds or 600.0, KUBERNETES if on_kube else SHORT)
        case fault if on_kube:
            scenario = alone(fault, KUBE_FAULTS[fault].lasts_s, KUBERNETES)
        case fault:
            scenario = alone(fault, FAULTS[fault].lasts_s)
    return fitted(scenario, _size(given))


def _size(given: argparse.Namespace) -> Size:
    return Size(
        sessions=given.sessions,
        nodes=given.nodes,
        stock=given.stock,
        one_shots_per_s=given.one_shots,
    )


def _run(given: argparse.Namespace) -> int:
    if given.what == "faults":
        return _run_faults(given)
    scenario = scenario_of(given)
    out = given.out or Path(f"chaos-{scenario.name}-{given.seed}-{time.strftime('%Y%m%d-%H%M%S')}")
    is_live = sys.stderr.isatty() and not (given.quiet or given.json)
    where = Where(context=given.context, driver=_driver(given))
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
        size=_size(given),
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
