"""Publishing through `shared.bus` beside the bare NATS library, both on the same servers in turns.

    ./dev bench bus [--seconds 20] [--coroutines 32] [--save]

Starts three servers of its own and leaves nothing running. What the figures mean: benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

from bus_parts.callers import Bare, Caller, Ours, finished_spans
from bus_parts.turns import one_by_one, side_by_side
from harness.machine import describe_machine, find_commit
from harness.pictures import Series
from harness.report import Report, Target, table
from harness.running import ROOT, CannotMeasure, add_common_options, fresh_folder, run, say
from harness.stats import median, percentile

from shared.bus import Bus
from shared.cluster import Cluster, open_cluster
from shared.testing.plugin import admin_options

STREAM = {
    "name": "BENCH",
    "subjects": ["bench.>"],
    "num_replicas": 3,
    "storage": "file",
    "max_bytes": 256 * 1024 * 1024,
    "discard": "old",
    "duplicate_window": 10_000_000_000,
}
TARGETS = (
    Target("publish_ratio", 0.8, at_least=True),
    Target("latency_ratio", 0.8, at_least=True),
)
READY_S = 30.0


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="bench bus", description=(__doc__ or "").splitlines()[0])
    add_common_options(parser)
    parser.add_argument(
        "--seconds", type=float, default=20, help="for each caller, half of it for latency (20)"
    )
    parser.add_argument(
        "--coroutines", type=int, default=32, help="publishes in flight of the throughput part (32)"
    )
    parser.add_argument("--bytes", type=int, default=256, help="size of each body (256)")
    options = parser.parse_args()
    if options.seconds <= 0 or options.coroutines <= 0 or options.bytes < 0:
        parser.error("--seconds, --coroutines: above 0 expected; --bytes: not below 0")
    return options


async def measure(given: argparse.Namespace) -> tuple[Report, list[Series]]:
    """Publish in turns, and return what that shows."""
    report = Report("bus", find_commit(ROOT), {}, TARGETS)
    with fresh_folder() as folder:
        cluster = open_cluster(folder / "nats")
        await asyncio.to_thread(cluster.start)
        try:
            await asyncio.to_thread(cluster.wait_ready, deadline_s=READY_S)
            series = await publish_all(report, cluster, given)
        finally:
            await asyncio.to_thread(cluster.kill)
    report.machine = describe_machine()
    return report, series


async def publish_all(report: Report, cluster: Cluster, given: argparse.Namespace) -> list[Series]:
    """Measure all callers on one cluster; return the latencies."""
    admin = await Bus.connect(admin_options(cluster))
    await admin.js_api("STREAM.CREATE.BENCH", STREAM, timeout_s=10)
    callers: list[Caller] = [
        await Bare.connect(cluster),
        await Ours.connect(cluster, traced=False),
        await Ours.connect(cluster, traced=True),
    ]
    body = bytes(given.bytes)
    try:
        say(f"{given.coroutines} publishes in flight, in turns")
        rounds = await side_by_side(callers, body, given.coroutines, given.seconds / 2)
        say("one publish after the other, in turns")
        latencies = await one_by_one(callers, body, given.seconds / 2)
        await check_stored(admin, callers)
    finally:
        for caller in callers:
            await caller.close()
        await admin.close()
    enter(report, rounds, latencies)
    say(f"{finished_spans(callers)} spans were made")
    return [
        Series(f"{name}: one publish after the other", [1000 * took for _, took in taken],
               [at for at, _ in taken])
        for name, taken in latencies.items()
    ]  # fmt: skip


async def check_stored(admin: Bus, callers: list[Caller]) -> None:
    """Compare what the stream was given with what the callers had acknowledged.

    Raises:
        CannotMeasure: a publish was lost or stored twice: its speed says nothing.
    """
    info = await admin.js_api("STREAM.INFO.BENCH", timeout_s=10)
    acked = sum(caller.acked for caller in callers)
    if info["state"]["last_seq"] != acked:
        raise CannotMeasure(f"{acked} publishes acknowledged, {info['state']['last_seq']} stored")


def enter(
    report: Report,
    rounds: dict[str, list[float]],
    latencies: dict[str, list[tuple[float, float]]],
) -> None:
    """Enter the figures.

    Args:
        report: where they go.
        rounds: acknowledged publishes for each second, of each caller in each round.
        latencies: (when, how long) of each publish, seconds, of each caller.
    """
    bare = rounds["bare"]
    for figure, name in (("publish_ratio", "bus"), ("publish_ratio_traced", "bus_traced")):
        ratios = [ours / theirs for ours, theirs in zip(rounds[name], bare, strict=True)]
        report.add(figure, median(ratios))
    took = {name: [seconds for _, seconds in taken] for name, taken in latencies.items()}
    report.add("latency_ratio", median(took["bare"]) / median(took["bus"]))
    report.add("latency_ratio_traced", median(took["bare"]) / median(took["bus_traced"]))
    rows = []
    for name, rates in rounds.items():
        p50_ms, p99_ms = (1000 * percentile(took[name], rank) for rank in (50, 99))
        report.add(f"{name}_publishes_per_s", median(rates))
        report.add(f"{name}_publish_p50_ms", p50_ms)
        report.add(f"{name}_publish_p99_ms", p99_ms)
        rows.append([name, f"{median(rates):,.0f}", f"{p50_ms:.2f}", f"{p99_ms:.2f}"])
    report.sections.append(table(["caller", "publishes/s", "p50 ms", "p99 ms"], rows))


def main() -> int:
    """Run the benchmark; return the exit code."""
    given = parse()
    return run(lambda: measure(given), save=given.save, must_reach=True)


if __name__ == "__main__":
    sys.exit(main())
