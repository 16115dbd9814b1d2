"""A node of Kubernetes loses its power, hangs, or is cut off and comes back: how soon its sessions go on elsewhere, and whether all of it stays.

    ./dev bench kubernetes-recovery [--rounds 5] [--hangs 1] [--cuts 1] [--sessions 60] [--rate 10] [--save]

Runs on the system of the kubeconfig's context, with a pool of its own. `$AGENT_SANDBOX_FAULTS` names the program that does
faults to nodes (`poweroff NODE`, `start NODE`, `hang`, `resume`, `cut`, `heal`). Times are taken by this program's clock:
fault begun, record under a higher epoch stored, first result under a higher epoch stored. What the figures mean:
benchmarks/README.md. Exits 1 if a bound is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
import time
from collections.abc import Callable, Sequence

from harness.machine import describe_machine, find_commit
from harness.pictures import Picture
from harness.report import Report
from harness.running import ROOT, CannotMeasure, add_common_options, run, say
from harness.site import Site, open_site
from kubernetes_parts import figures
from kubernetes_parts.rounds import Rounds
from recovery_parts.tracker import Tracker
from soak import journals
from soak_parts.load import Load
from soak_parts.workers import Workers

from agent_sandbox.kubernetes.names import EDGE_PORT, SERVER_PORT
from shared.messages import TaskResult, decode
from shared.pools import PoolSpec
from shared.record import Record
from shared.recovery import Recovery
from shared.testing.checker import judge
from shared.testing.history import Place
from shared.testing.node_faults import FAULTS_VARIABLE, Fault, FaultFailed, NodeFaults
from shared.testing.recorder import record

POOL = "bench-recovery"
LONG_SHARE = 0.9
"""Of tasks that sleep: so many sessions have one in hand when their node dies."""
ONE_SHOTS = 0.02
TASKS_OF_A_SESSION = (100, 300)
"""Most sessions last: on Kubernetes each new one costs the nodes' processors a second, which the others then lack."""
BEGIN_S = 20.0
"""Before the first fault: all sessions have begun by then."""
BETWEEN_S = 10.0
DRAIN_S = 120.0
LOAD_S = 3600.0
"""Longest load; it ends with the last round."""


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="bench kubernetes-recovery", description=(__doc__ or "").splitlines()[0]
    )
    add_common_options(parser)
    parser.set_defaults(isolation="oci")
    parser.add_argument(
        "--context", default=None, help="context of the kubeconfig (its current one)"
    )
    parser.add_argument("--rounds", type=int, default=5, help="nodes powered off (5)")
    parser.add_argument("--hangs", type=int, default=1, help="nodes frozen for a while (1)")
    parser.add_argument("--cuts", type=int, default=1, help="nodes cut off for a while (1)")
    parser.add_argument("--sessions", type=int, default=60, help="sessions at work (60)")
    parser.add_argument("--stock", type=int, default=30, help="warm workers beside them (30)")
    parser.add_argument("--rate", type=float, default=10, help="tasks published each second (10)")
    parser.add_argument("--seed", type=int, default=None, help="of the load")
    options = parser.parse_args()
    if min(options.rounds, options.hangs, options.cuts) < 0 or options.rate <= 0:
        parser.error("--rounds, --hangs, --cuts: at least 0; --rate: above 0 expected")
    if options.seed is None:
        options.seed = int(time.time())
    return options


async def measure(given: argparse.Namespace) -> tuple[Report, Sequence[Picture]]:
    """Run load and faults side by side, let everything come to rest, and judge."""
    faults = NodeFaults.from_environment()
    if faults is None:
        raise CannotMeasure(f"${FAULTS_VARIABLE} names no program that does faults to nodes")
    report = Report("kubernetes-recovery", find_commit(ROOT), {}, figures.targets(given))
    report.add("seed", given.seed)
    pool = PoolSpec(
        name=POOL,
        stock=given.stock,
        pods_max=2 * given.sessions + 2 * given.stock,
        isolation=given.isolation,
        idle_release_s=120.0,
    )
    try:
        with faults.mended():
            async with open_site([pool], context=given.context) as site:
                await site.wait_warm(POOL, given.stock)
                drawn = await _measure(site, faults, report, given)
                report.machine = describe_machine(given.isolation)
    except FaultFailed as exc:
        raise CannotMeasure(str(exc)) from exc
    return report, drawn


async def _measure(
    site: Site, faults: NodeFaults, report: Report, given: argparse.Namespace
) -> list[Picture]:
    second = await site.second()
    try:
        async with site.client() as client, record(site.admin, second) as recorder:
            workers, tracker, told = Workers(), Tracker(), list[Recovery]()
            await workers.listen(site.admin, POOL)
            load = Load(client.bus, POOL, given.seed, given.sessions)
            load.long_share, load.one_shots = LONG_SHARE, ONE_SHOTS
            load.tasks_of_a_session = TASKS_OF_A_SESSION
            recorder.hearers += [
                load.on_stored,
                workers.on_stored,
                _follow(tracker, load, told),
            ]
            outside = ((SERVER_PORT, site.admin), (SERVER_PORT, second), (EDGE_PORT, client.bus))
            rounds = Rounds(site, POOL, given.stock, faults, tracker, workers, load.now, outside)
            await _strike(rounds, load, given)
            report.add("drain_s", await load.drain(DRAIN_S))
            history = await recorder.history(load.accepted(), journals=journals(load, recorder))
    finally:
        await second.close()
    report.notes += rounds.notes
    figures.add_rounds(report, rounds.done)
    figures.add_verdict(report, judge(history), tracker, load.refused)
    figures.add_rolled_back(report, told)
    return figures.pictures(rounds.done)


def _follow(
    tracker: Tracker, load: Load, told: list[Recovery]
) -> Callable[[Place, str, bytes], None]:
    """Return what tells the tracker of all that is stored."""

    def on_stored(_: Place, subject: str, data: bytes) -> None:
        if subject.startswith("rec."):
            tracker.on_record(decode(data, Record), load.now())
        elif subject.startswith("done."):
            result = decode(data, TaskResult)
            tracker.on_result(result, load.now())
            if result.recovery is not None:
                told.append(result.recovery)

    return on_stored


async def _strike(rounds: Rounds, load: Load, given: argparse.Namespace) -> None:
    """Publish while nodes fail, one after another."""
    nodes = sorted(set((await asyncio.to_thread(rounds.site.worker_nodes)).values()) - {""})
    counts: dict[Fault, int] = {"poweroff": given.rounds, "hang": given.hangs, "cut": given.cuts}
    kinds = [fault for fault, count in counts.items() for _ in range(count)]
    say(f"{given.sessions} sessions on {', '.join(nodes)}")
    publishing = asyncio.create_task(load.run(LOAD_S, given.rate))
    try:
        await asyncio.sleep(BEGIN_S)
        for fault, node in zip(kinds, itertools.cycle(nodes), strict=False):
            await rounds.strike(fault, node)
            say(f"{load.now():.0f} s: {len(load.accepted())} accepted")
            await asyncio.sleep(BETWEEN_S)
    finally:
        load.stop()
        async with asyncio.timeout(DRAIN_S):
            await publishing


def main() -> int:
    """Run the benchmark; return the exit code."""
    given = parse()
    return run(lambda: measure(given), save=given.save, must_reach=True)


if __name__ == "__main__":
    sys.exit(main())
