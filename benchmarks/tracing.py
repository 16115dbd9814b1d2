"""Traces: what they cost, whether they are whole, and how one looks.

    ./dev bench tracing [--seconds 60] [--stock 16] [--picture FILE] [--only overhead|recovery] [--save]

Starts two clusters of its own and leaves nothing running. What the figures mean: benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

from harness.cluster import Private, pool, private_cluster
from harness.machine import describe_machine, find_commit
from harness.pictures import Picture, Series
from harness.report import Report, Target, table
from harness.running import ROOT, add_common_options, run, say
from harness.stats import median, percentile
from tracing_parts import drawing, recovery
from tracing_parts.overhead import POOL, Side, take_turns

from shared.testing.otlp import Receiver, receive

TARGETS = (
    Target("tti_ratio", 1.15),
    Target("traces_cut", 0),
)
PARTS = ("overhead", "recovery")
SETTLED_S = 20.0
"""Longest wait for the last spans on their way to the receiver."""
SETTLE_S = 0.5
SPANS_OF_A_TASK = frozenset({
    "wait in queue", "fetch q.{shard}.{tenant}.{pool}.{class}", "claim session", "ack q.{shard}.{tenant}.{pool}.{class}",
    "restore workspace", "start program", "execute task", "commit result", "process task.{tenant}.{pool}.{class}",
})  # fmt: skip


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="bench tracing", description=(__doc__ or "").splitlines()[0]
    )
    add_common_options(parser)
    parser.add_argument("--seconds", type=float, default=60, help="for both clusters together (60)")
    parser.add_argument("--stock", type=int, default=16, help="warm workers of each cluster (16)")
    parser.add_argument("--only", choices=PARTS, help="one part")
    parser.add_argument(
        "--picture", type=Path, help="draw the trace with a recovery into this file"
    )
    options = parser.parse_args()
    if options.seconds <= 0 or options.stock <= 0:
        parser.error("--seconds, --stock: above 0 expected")
    return options


@contextmanager
def exporting(receiver: Receiver) -> Iterator[None]:
    """While inside, what is started exports its traces."""
    added = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "OTEL_BSP_SCHEDULE_DELAY": "500"}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


async def measure(given: argparse.Namespace) -> tuple[Report, Sequence[Picture]]:
    """Run the parts."""
    report = Report("tracing", find_commit(ROOT), {}, TARGETS)
    drawn: list[Series] = []
    pools = (pool(POOL, stock=given.stock),)
    with receive() as receiver:
        async with AsyncExitStack() as closing:
            with exporting(receiver):
                on = await closing.enter_async_context(
                    private_cluster(pools, isolation=given.isolation)
                )
            if given.only != "recovery":
                off = await closing.enter_async_context(
                    private_cluster(pools, isolation=given.isolation)
                )
                drawn = await compare(report, {"off": off, "on": on}, given)
                await count(report, receiver, drawn)
            if given.only != "overhead":
                await show_recovery(report, on, receiver, given)
            isolation = await on.wait_warm(POOL, given.stock)
    report.machine = describe_machine(isolation)
    return report, drawn


async def compare(
    report: Report, clusters: dict[str, Private], given: argparse.Namespace
) -> list[Series]:
    """Run tasks on both in turns, and enter what they took."""
    say("tasks one after another, in turns")
    async with AsyncExitStack() as closing:
        sides = [
            Side(name, cluster, await closing.enter_async_context(cluster.client()), [], [], [])
            for name, cluster in clusters.items()
        ]
        await take_turns(sides, given.stock, given.seconds)
    off, on = sides
    report.add("tti_ratio", median(on.tti_ms) / median(off.tti_ms))
    report.add("total_ratio", median(on.total_ms) / median(off.total_ms))
    rows = []
    for side in sides:
        cpu_ms = 1000 * sum(side.cpu_s) / len(side.tti_ms)
        figures = {
            "tti_p50_ms": median(side.tti_ms),
            "tti_p99_ms": percentile(side.tti_ms, 99),
            "total_p50_ms": median(side.total_ms),
            "cpu_ms_per_task": cpu_ms,
        }
        for name, value in figures.items():
            report.add(f"{name}_{side.name}", value)
        rows.append([side.name, str(len(side.tti_ms)), *(f"{v:.1f}" for v in figures.values())])
    head = ["traces", "tasks", "tti p50 ms", "tti p99 ms", "total p50 ms", "cpu ms a task"]
    report.sections.append(table(head, rows))
    return [
        Series(f"traces {side.name}: time to interactive", side.tti_ms, range(len(side.tti_ms)))
        for side in sides
    ]


async def count(report: Report, receiver: Receiver, drawn: Sequence[Series]) -> None:
    """Enter how many of the traces came whole."""
    tasks, whole = len(drawn[1].values_ms), 0
    names: dict[str, Counter[str]] = {}
    until = time.monotonic() + SETTLED_S
    while whole < tasks and time.monotonic() < until:
        await asyncio.sleep(SETTLE_S)
        names = {}
        for span in receiver.spans():
            names.setdefault(span.trace, Counter())[span.name] += 1
        whole = sum(set(found) >= SPANS_OF_A_TASK for found in names.values())
    report.add("traces_cut", max(0, tasks - whole))
    report.add("spans_per_task", sum(found.total() for found in names.values()) / len(names))
    report.add("exports", receiver.requests)


async def show_recovery(
    report: Report, cluster: Private, receiver: Receiver, given: argparse.Namespace
) -> None:
    """Enter what the trace of a task shows whose worker is killed, and draw it where that is asked for."""
    say("a task whose worker is killed")
    await cluster.wait_warm(POOL, given.stock)
    with exporting(receiver):
        spans = await recovery.record(cluster, receiver)
    (recover,) = [span for span in spans if span.name == "recover session"]
    lost, second = [span for span in spans if span.name.startswith("process ")]
    report.add("recovery_spans", len(spans))
    report.add("recovery_gap_ms", (second.start_ns - lost.end_ns) / 1e6)
    report.add("recover_ms", (recover.end_ns - recover.start_ns) / 1e6)
    if given.picture is not None:
        title = "One task, one trace: its worker is killed while it runs"
        await asyncio.to_thread(given.picture.write_text, drawing.draw(spans, title))
        say(f"drawn {given.picture}")


def main() -> int:
    """Run the benchmark; return the exit code."""
    given = parse()
    return run(
        lambda: measure(given),
        save=given.save,
        part=given.only or "",
        must_reach=given.only is None,
    )


if __name__ == "__main__":
    sys.exit(main())
