"""The command line: what may be asked for, and which experiment that is."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from chaos.core.driver import NODE, Templates
from chaos.core.scenario import HEADLINE, KUBERNETES, SHORT, Scenario, Size, alone, fitted, quiet
from chaos.nemesis import FAULTS
from chaos.nemesis.kubernetes import KUBE_FAULTS
from shared.testing.node_faults import FAULTS_VARIABLE


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="agent-sandbox chaos", description="The chaos lab.")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="COMMAND")
    _add_run(verbs.add_parser("run", help="run an experiment on a cluster of its own"))
    judge = verbs.add_parser(
        "judge", help="judge a history again, also one whose run was aborted or crashed"
    )
    judge.add_argument("folder", type=Path)
    kept = verbs.add_parser(
        "keep",
        help="write report, pictures and compressed history of a run (of `run faults`: the table) where others find them",
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
        driver = driver_of(given)
        if driver is not None and (problem := driver.problem()):
            parser.error(f"--node-{problem}")
    return given


def _add_run(run: argparse.ArgumentParser) -> None:
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
    run.add_argument(
        "--drain", type=float, help="another longest wait for what is under way at the end, seconds"
    )
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


def driver_of(given: argparse.Namespace) -> Templates | None:
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
    return fitted(scenario, size_of(given))


def size_of(given: argparse.Namespace) -> Size:
    """Return the size that was asked for."""
    return Size(
        sessions=given.sessions,
        nodes=given.nodes,
        stock=given.stock,
        one_shots_per_s=given.one_shots,
        drain_s=given.drain,
    )
