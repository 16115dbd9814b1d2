"""Warm starts at a steady rate, on a pool that is refilled meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from harness.cluster import Private, pool, private_cluster
from harness.groups import GROUPS
from harness.load import CODE, Call, check_calls, make_caller, open_loop, without_pauses
from harness.observe import Heard, observe
from harness.pictures import Series
from harness.report import table
from harness.running import say
from harness.stages import MEANING, StageRow, is_warm, stage_rows
from harness.stats import percentile, summarize
from harness.usage import Usage, between, look

from tti_parts.options import Run

POOL = "warm"
WARM_UP_S = 1.0
"""First calls pay for connections and caches of the client; they are made before, and not counted."""
ALL_HEARD_S = 4.0
"""Two periods of a warm worker's heartbeat."""
SAMPLE_S = 1.0
QUIET_CORES = 0.1
"""More than this used elsewhere, and the figures belong to a machine that was busy with something else."""


async def measure(run: Run) -> None:
    """Enter the figures of the warm part."""
    options = run.options
    count = max(1, round(options.rate * options.seconds))
    async with (
        private_cluster((pool(POOL, stock=options.stock),), isolation=options.isolation) as cluster,
        cluster.client() as client,
        observe(cluster.admin, POOL) as heard,
    ):
        run.isolation.add(await cluster.wait_warm(POOL, options.stock))
        caller = await make_caller(options.caller, client)
        await open_loop(
            round(options.rate * WARM_UP_S),
            options.rate,
            lambda call: caller.call(call, POOL, CODE),
        )
        await cluster.wait_warm(POOL, options.stock)
        before = look(cluster.roots())
        await asyncio.sleep(ALL_HEARD_S)
        rest = between(before, look(cluster.roots()))
        say(f"warm: {count} calls, {options.rate:g} each second, on a stock of {options.stock}")
        async with without_pauses(), _stock_levels(cluster) as levels:
            first = look(cluster.roots())
            calls = await open_loop(count, options.rate, lambda call: caller.call(call, POOL, CODE))
            usage = between(first, look(cluster.roots()))
        report_calls(run, calls, heard)
        run.report.add("warm_stock_min", min(levels, default=options.stock))
        report_usage(run, rest, usage, len(calls))


def report_calls(run: Run, calls: Sequence[Call], heard: Heard) -> None:
    """Enter latencies, the warm share, and the stages behind them."""
    reached = check_calls(list(calls))
    report = run.report
    found = summarize([call.tti_ms for call in calls])
    report.add("warm_p50_ms", found.p50)
    report.add("warm_p90_ms", found.p90)
    report.add("warm_p99_ms", found.p99)
    report.add("warm_max_ms", found.max)
    report.add("warm_share", sum(is_warm(call, heard) for call in calls) / len(calls))
    report.add("warm_calls", len(calls))
    report.add("warm_lost", len(calls) - len(reached))
    late = [(call.called_ns - call.due_ns) / 1e6 for call in calls]
    report.add("warm_call_late_p99_ms", percentile(late, 99))
    report.add(
        "warm_from_schedule_p99_ms", percentile([call.from_schedule_ms for call in calls], 99)
    )
    span_s = (calls[-1].called_ns - calls[0].called_ns) / 1e9
    report.add("warm_calls_per_s", (len(calls) - 1) / span_s if span_s else 0)
    rows = stage_rows(calls, heard)
    for row in rows:
        report.add(f"warm_{row.stage}_p50_ms", row.all.p50)
        report.add(f"warm_{row.stage}_p99_ms", row.all.p99)
    report.sections.append(stage_table("warm: where the time goes, milliseconds", rows))
    for why in sorted({call.why_lost() for call in calls if call.user_ns is None}):
        report.notes.append(f"warm: lost: {why}")
    first_ns = calls[0].called_ns
    targets = [
        (f"{t.figure} {t.describe()}", t.reach)
        for t in report.targets
        if t.figure in ("warm_p50_ms", "warm_p99_ms")
    ]
    run.series.append(
        Series(
            f"warm, {run.options.rate:g}/s",
            [call.tti_ms for call in calls],
            [(call.called_ns - first_ns) / 1e9 for call in calls],
            targets,
        )
    )


def report_usage(run: Run, rest: Usage, usage: Usage, calls: int) -> None:
    """Enter what the machine was busy with, and what of it a task costs beyond the rest before."""
    report = run.report
    rows = []

    def add(name: str, cores: float, at_rest: float) -> None:
        each_ms = (cores - at_rest) * usage.seconds * 1000 / calls
        rows.append([name, f"{at_rest:.3f}", f"{cores:.3f}", f"{each_ms:.2f}"])

    for group in GROUPS:
        report.add(f"warm_cores_{group}", usage.cores[group])
        add(group, usage.cores[group], rest.cores[group])
    report.add("warm_cores_total", usage.total)
    report.add("warm_rest_cores_total", rest.total)
    report.add("warm_cores_elsewhere", usage.elsewhere)
    each_ms = (usage.total - rest.total) * usage.seconds * 1000 / calls
    report.add("warm_cpu_ms_per_task", each_ms)
    add("together", usage.total, rest.total)
    add("elsewhere", usage.elsewhere, rest.elsewhere)
    report.sections.append(
        "warm: processor time\n"
        + table(["process group", "cores at rest", "cores", "ms for each task beyond rest"], rows)
    )
    if usage.waiting is not None:
        report.add("warm_waiting_share", usage.waiting)
    if usage.elsewhere > QUIET_CORES:
        report.notes.append(
            f"warm: {usage.elsewhere:.2f} cores were used by other things than the cluster: the machine was not quiet"
        )
    if usage.stolen > 0.01:
        report.notes.append(
            f"warm: {usage.stolen:.2f} cores were taken by the machine below this virtual one"
        )


def stage_table(title: str, rows: Sequence[StageRow]) -> str:
    """Return the stages as a table."""
    cells = [
        [
            f"{row.stage}: {MEANING[row.stage]}",
            *(
                f"{value:.2f}"
                for value in (row.all.mean, row.all.p50, row.all.p90, row.all.p99, row.slowest_ms)
            ),
        ]
        for row in rows
    ]
    return f"{title}\n" + table(["stage", "mean", "p50", "p90", "p99", "slowest 1 %"], cells)


@asynccontextmanager
async def _stock_levels(cluster: Private) -> AsyncIterator[list[int]]:
    """Ask each second how many workers wait."""
    levels: list[int] = []

    async def sample() -> None:
        while True:
            await asyncio.sleep(SAMPLE_S)
            levels.append((await cluster.view(POOL)).warm)

    sampling = asyncio.create_task(sample())
    try:
        yield levels
    finally:
        sampling.cancel()
        await asyncio.wait({sampling})
        if not sampling.cancelled() and (error := sampling.exception()):
            say(f"stock levels: {error}")
