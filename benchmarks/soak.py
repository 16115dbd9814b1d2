"""Minutes of load under kills, judged by what the streams stored: nothing lost, doubled, out of order or stale.

    ./dev bench soak [--seconds 300] [--seed N] [--rate 40] [--save]
    ./dev bench soak --negative-control

A worker is killed every half second, others are stopped until they are zombies, now and then a pool-manager and the
server that leads a queue are killed. What the figures mean: benchmarks/README.md. Exits 1 if a bound is missed.
The negative control runs a build without fencing, in which the checker must find something: exits 1 if it does not.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from harness.cluster import Private, private_cluster
from harness.machine import describe_machine, find_commit
from harness.pictures import Picture
from harness.report import Report
from harness.running import ROOT, add_common_options, run, say
from soak_parts import control, figures
from soak_parts.load import Load
from soak_parts.nemesis import Nemesis
from soak_parts.workers import Busy, Workers

from shared.bus import Bus, BusOptions
from shared.identity import load_identity, roles
from shared.messages import TaskResult, decode
from shared.pools import PoolSpec
from shared.testing.checker import judge
from shared.testing.history import TaskKey
from shared.testing.recorder import Recorder, record

POOL = PoolSpec(name="soak", stock=24, pods_max=160, idle_release_s=3.0)
SESSIONS = 40
DRAIN_S = 60.0
SAY_EVERY_S = 10.0
LONG_S = 0.4
"""A task that sleeps at least so long is hit in the middle more often than not."""


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="bench soak", description=(__doc__ or "").splitlines()[0])
    add_common_options(parser)
    parser.add_argument("--seconds", type=float, default=300, help="length of the load (300)")
    parser.add_argument("--rate", type=float, default=40, help="tasks published each second (40)")
    parser.add_argument(
        "--seed", type=int, default=None, help="of load and faults; none: by the clock"
    )
    parser.add_argument(
        "--nodes-too", action="store_true", help="kill nodes and their fork servers as well"
    )
    parser.add_argument(
        "--negative-control",
        action="store_true",
        help="run a build without fencing, with zombies; the checker must find something",
    )
    options = parser.parse_args()
    if options.seconds <= 0 or options.rate <= 0:
        parser.error("--seconds, --rate: above 0 expected")
    if options.seed is None:
        options.seed = int(time.time())
    return options


async def measure(given: argparse.Namespace) -> tuple[Report, Sequence[Picture]]:
    """Run load and faults side by side, let everything come to rest, and judge."""
    report = Report("soak", find_commit(ROOT), {}, figures.targets(given.seconds))
    report.add("seed", given.seed)
    async with private_cluster((POOL,), isolation=given.isolation) as cluster:
        isolation = await cluster.wait_warm(POOL.name, POOL.stock)
        async with (
            cluster.client() as client,
            second_connection(cluster) as second,
            record(cluster.admin, second) as recorder,
        ):
            workers = Workers()
            await workers.listen(second, POOL.name)
            load = Load(client.bus, POOL.name, given.seed, SESSIONS)
            recorder.hearers += [load.on_stored, workers.on_stored]
            nemesis = make_nemesis(cluster, workers, load, given)
            began_ms = time.time() * 1000
            await run_load(load, nemesis, given)
            ended_ms = time.time() * 1000
            report.add("drain_s", await load.drain(DRAIN_S))
            history = await recorder.history(load.accepted(), journals=journals(load, recorder))
    verdict = judge(history)
    figures.add_verdict(report, verdict, history)
    figures.add_faults(report, nemesis.faults, history)
    figures.add_claim_gap(report, history, nemesis.faults, (began_ms, ended_ms))
    figures.add_latencies(report, load.sent.values())
    report.add("refused", len(load.refused))
    report.notes += sorted(set(load.refused))[:5]
    report.notes += [f"{kind}: {count} times no victim" for kind, count in nemesis.missed.items()]
    report.machine = describe_machine(isolation)
    sent = list(load.sent.values())
    return report, [figures.timeline(sent, nemesis.faults)]


def make_nemesis(
    cluster: Private, workers: Workers, load: Load, given: argparse.Namespace
) -> Nemesis:
    """Return the faults, over the load's clock."""

    def is_long(busy: Busy) -> bool:
        sent = load.sent.get(busy.task)
        return sent is not None and sent.seconds >= LONG_S

    return Nemesis(
        folder=cluster.folder,
        bus=cluster.admin,
        workers=workers,
        random=random.Random(given.seed + 1),
        now=load.now,
        is_long=is_long,
        nodes_too=given.nodes_too,
    )


@asynccontextmanager
async def second_connection(cluster: Private) -> AsyncIterator[Bus]:
    """Connect once more with all rights, to another server than the first connection where that is possible."""
    servers = cluster.admin.options.servers
    others = tuple(server for server in servers if not server.endswith(cluster.admin.server))
    identity = load_identity(cluster.folder.servers / "identity.json")
    bus = await Bus.connect(
        BusOptions(
            servers=(*others, *set(servers) - set(others)),
            name="bench-2",
            credential=identity.signer.mint("bench-2", roles.admin()),
        )
    )
    try:
        yield bus
    finally:
        await bus.close()


async def run_load(load: Load, nemesis: Nemesis, given: argparse.Namespace) -> None:
    """Publish under faults, and tell people how it goes."""

    async def tell() -> None:
        while True:
            await asyncio.sleep(SAY_EVERY_S)
            done = sum(1 for sent in load.sent.values() if sent.finished_s)
            kinds = dict.fromkeys(("kill", "stop", "manager", "leader"), 0)
            for fault in nemesis.faults:
                kinds[fault.kind] += 1
            say(
                f"{load.now():.0f} s: {len(load.accepted())} accepted, {done} finished; "
                + ", ".join(f"{count} of kind {kind}" for kind, count in kinds.items())
            )

    telling = asyncio.create_task(tell())
    try:
        await asyncio.gather(load.run(given.seconds, given.rate), nemesis.run(given.seconds))
    finally:
        telling.cancel()
        await asyncio.wait({telling})


def journals(load: Load, recorder: Recorder) -> dict[TaskKey, tuple[str, ...]]:
    """Return what each task read back from its workspace, by its first result."""
    found: dict[TaskKey, tuple[str, ...]] = {}
    for _, (subject, data) in sorted(recorder.stored.items()):
        if not subject.startswith("done."):
            continue
        result = decode(data, TaskResult)
        key = (result.tenant, result.session, result.task)
        sent = load.sent.get(key)
        if result.status == "ok" and sent is not None and sent.journal:
            found.setdefault(key, tuple(result.stdout.text.split()))
    return found


def main() -> int:
    """Run the benchmark; return the exit code."""
    given = parse()
    if given.negative_control:
        return control.main(given)
    return run(lambda: measure(given), save=given.save, must_reach=True)


if __name__ == "__main__":
    sys.exit(main())
