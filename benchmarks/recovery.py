"""How long sessions need to go on after their worker, or their whole node, was killed under load; and whether all of it stays.

    ./dev bench recovery [--worker-kills 100] [--node-kills 30] [--rate 12] [--seed N] [--save]
    ./dev bench recovery --only sizes

A worker in mid-task is killed every second or so, a node (with all pods and its checkpointer) every few seconds. Times are
taken by the injector's clock: fault, record under a higher epoch stored, first result under a higher epoch stored. Then one
session after another, with workspaces of several sizes, loses its worker, then its node, while its task writes. What the figures mean: benchmarks/README.md. Exits 1
if a bound is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections.abc import Awaitable, Callable, Sequence

from harness.cluster import Private, private_cluster
from harness.machine import describe_machine, find_commit
from harness.pictures import Picture
from harness.report import Report
from harness.running import ROOT, CannotMeasure, add_common_options, run, say
from recovery_parts import figures, sizes
from recovery_parts.tracker import Tracker
from soak import journals, second_connection
from soak_parts.load import Load
from soak_parts.nemesis import Nemesis
from soak_parts.workers import Busy, Workers

from shared.messages import TaskResult, decode
from shared.pools import PodLimits, PoolSpec
from shared.record import Record
from shared.testing.checker import judge
from shared.testing.history import Place
from shared.testing.recorder import record

POOL = PoolSpec(name="recovery", stock=16, pods_max=120, idle_release_s=30.0)
NODES = 4
SESSIONS = 30
KILL_EVERY_S = 1.4
NODE_EVERY_S = 5.0
NODE_BACK_S = 30.0
"""Longest wait for all nodes before another one is killed."""
WARM_UP_S = 6.0
LONG_SHARE = 0.5
"""Of tasks that sleep: so many sessions have one in hand when their node is killed."""
DRAIN_S = 90.0


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="bench recovery", description=(__doc__ or "").splitlines()[0]
    )
    add_common_options(parser)
    parser.add_argument("--worker-kills", type=int, default=100, help="workers killed (100)")
    parser.add_argument("--node-kills", type=int, default=30, help="nodes killed (30)")
    parser.add_argument("--rate", type=float, default=12, help="tasks published each second (12)")
    parser.add_argument("--seed", type=int, default=None, help="of load and faults")
    parser.add_argument(
        "--only", choices=("load", "sizes"), default=None, help="one of the two parts"
    )
    parser.add_argument(
        "--size",
        action="append",
        choices=sizes.NAMES,
        default=None,
        help="workspaces of the second part (all); several times for several",
    )
    options = parser.parse_args()
    if options.worker_kills < 0 or options.node_kills < 0 or options.rate <= 0:
        parser.error("--worker-kills, --node-kills: at least 0; --rate: above 0 expected")
    if options.seed is None:
        options.seed = int(time.time())
    return options


async def measure(given: argparse.Namespace) -> tuple[Report, Sequence[Picture]]:
    """Measure one part or both."""
    report = Report("recovery", find_commit(ROOT), {}, figures.targets(given))
    pictures: list[Picture] = []
    if given.only in (None, "load"):
        pictures += await measure_load(report, given)
    if given.only in (None, "sizes"):
        pool = PoolSpec(
            name="sizes",
            stock=2,
            pods_max=8,
            limits=PodLimits(disk_mib=8192, memory_mib=1024),
            checkpoint_every_s=sizes.CHECKPOINT_S,
        )
        async with private_cluster((pool,), isolation=given.isolation, nodes=2) as cluster:
            isolation = await cluster.wait_warm(pool.name, pool.stock)
            await sizes.measure(cluster, pool.name, given.size or sizes.NAMES, report)
            report.machine = describe_machine(isolation)
    return report, pictures


async def measure_load(report: Report, given: argparse.Namespace) -> list[Picture]:
    """Run load and faults side by side, let everything come to rest, and judge."""
    report.add("seed", given.seed)
    async with private_cluster((POOL,), isolation=given.isolation, nodes=NODES) as cluster:
        report.machine = describe_machine(await cluster.wait_warm(POOL.name, POOL.stock))
        async with (
            cluster.client() as client,
            second_connection(cluster) as second,
            record(cluster.admin, second) as recorder,
        ):
            workers, tracker = Workers(), Tracker()
            await workers.listen(second, POOL.name)
            load = Load(client.bus, POOL.name, given.seed, SESSIONS)
            recorder.hearers += [load.on_stored, workers.on_stored, _follow(tracker, load)]
            load.long_share = LONG_SHARE
            nemesis = Nemesis(
                folder=cluster.folder,
                bus=cluster.admin,
                workers=workers,
                random=random.Random(given.seed + 1),
                now=load.now,
                is_long=lambda _: False,
            )
            await _strike(cluster, load, nemesis, tracker, given)
            report.add("drain_s", await load.drain(DRAIN_S))
            history = await recorder.history(load.accepted(), journals=journals(load, recorder))
    figures.add_faults(report, [fault.kind for fault in nemesis.faults])
    figures.add_hits(report, tracker)
    figures.add_verdict(report, judge(history), tracker, load)
    return figures.pictures(tracker)


def _follow(tracker: Tracker, load: Load) -> Callable[[Place, str, bytes], None]:
    """Return what tells the tracker of all that is stored."""

    def on_stored(_: Place, subject: str, data: bytes) -> None:
        if subject.startswith("rec."):
            tracker.on_record(decode(data, Record), load.now())
        elif subject.startswith("done."):
            tracker.on_result(decode(data, TaskResult), load.now())

    return on_stored


async def _strike(
    cluster: Private, load: Load, nemesis: Nemesis, tracker: Tracker, given: argparse.Namespace
) -> None:
    """Publish while workers and nodes are killed, until there were as many of both as are wanted."""

    async def kill_workers() -> None:
        await asyncio.sleep(WARM_UP_S)
        for _ in range(given.worker_kills):
            await asyncio.sleep(KILL_EVERY_S)
            await _until(nemesis.kill_worker)
            _note(tracker, nemesis, _running(nemesis.workers.busy()))

    async def kill_nodes() -> None:
        await asyncio.sleep(WARM_UP_S)
        for _ in range(given.node_kills):
            await asyncio.sleep(NODE_EVERY_S)
            busy = _running(nemesis.workers.busy())
            await _until(nemesis.kill_node)
            _note(tracker, nemesis, busy)

    async def tell() -> None:
        while True:
            await asyncio.sleep(10)
            open_hits = sum(1 for hit in tracker.hits if hit.recovered_s is None and not hit.ended)
            say(
                f"{load.now():.0f} s: {len(load.accepted())} accepted, {len(nemesis.faults)} faults, "
                f"{len(tracker.hits)} sessions hit, {open_hits} not yet going on"
            )

    async def publish() -> None:
        seconds = WARM_UP_S + max(
            given.worker_kills * KILL_EVERY_S, given.node_kills * NODE_EVERY_S
        )
        await load.run(seconds + 5, given.rate)

    telling = asyncio.create_task(tell())
    try:
        await asyncio.gather(publish(), kill_workers(), kill_nodes())
    finally:
        telling.cancel()
        await asyncio.wait({telling})


def _running(busy: Sequence[Busy]) -> dict[str, str | None]:
    return {one.worker: one.task[2] for one in busy}


def _note(tracker: Tracker, nemesis: Nemesis, busy: dict[str, str | None]) -> None:
    """Tell the tracker of the fault that was done last."""
    fault = nemesis.faults[-1]
    victims = [fault.victim] if fault.kind == "kill" else tracker.node_of(fault.victim)
    tracker.fault(fault.kind, fault.at_s, victims={worker: busy.get(worker) for worker in victims})


async def _until(act: Callable[[], Awaitable[bool]]) -> None:
    """Do a fault as soon as there is a victim."""
    until = time.monotonic() + NODE_BACK_S
    while not await act():
        if time.monotonic() > until:
            raise CannotMeasure(f"no victim for {NODE_BACK_S:g} s")
        await asyncio.sleep(0.1)


def main() -> int:
    """Run the benchmark; return the exit code."""
    given = parse()
    return run(lambda: measure(given), save=given.save, part=given.only or "", must_reach=True)


if __name__ == "__main__":
    sys.exit(main())
