"""As many tasks at once as workers wait."""

from __future__ import annotations

import asyncio
import math

from harness.cluster import pool, private_cluster
from harness.load import (
    HOLDING_CODE,
    Call,
    check_calls,
    make_caller,
    open_loop,
    without_pauses,
)
from harness.observe import observe
from harness.pictures import Series
from harness.running import say
from harness.stages import is_warm, stage_rows
from harness.stats import percentile
from harness.usage import between, look

from tti_parts.options import Run
from tti_parts.warm import ALL_HEARD_S, stage_table

POOL = "burst"
HOLD_S = 3.0
"""Each task keeps its worker until all have started: nobody comes free, and no refill begins."""


async def measure(run: Run, count: int) -> None:
    """Enter the figures of a burst on exactly `count` warm workers."""
    options, report = run.options, run.report
    declared = pool(POOL, stock=count, pods_max=count)
    async with (
        private_cluster((declared,), isolation=options.isolation) as cluster,
        cluster.client() as client,
        observe(cluster.admin, POOL) as heard,
    ):
        run.isolation.add(await cluster.wait_warm(POOL, count))
        caller = await make_caller(options.caller, client)
        await asyncio.sleep(ALL_HEARD_S)
        say(f"burst: {count} calls at once on {count} warm workers")
        code = HOLDING_CODE.format(seconds=HOLD_S)
        async with without_pauses():
            first = look(cluster.roots())
            calls = await open_loop(count, math.inf, lambda call: caller.call(call, POOL, code))
            usage = between(first, look(cluster.roots()))
    check_calls(calls)
    name = f"burst{count}"
    began_ns = min(call.called_ns for call in calls)
    after_ms = [call.tti_ms + (call.called_ns - began_ns) / 1e6 for call in calls]
    report.add(f"{name}_all_started_s", max(after_ms) / 1000)
    report.add(f"{name}_p50_ms", percentile(after_ms, 50))
    report.add(f"{name}_p90_ms", percentile(after_ms, 90))
    report.add(f"{name}_lost", sum(call.user_ns is None for call in calls))
    report.add(f"{name}_warm_share", sum(is_warm(call, heard) for call in calls) / count)
    report.add(f"{name}_accepted_s", _last_accepted_s(calls, began_ns))
    rows = stage_rows(calls, heard)
    report.sections.append(stage_table(f"{name}: where the time goes, milliseconds", rows))
    spent = sorted(usage.cores.items(), key=lambda item: -item[1])
    report.sections.append(
        f"{name}: processor time, ms for each task: "
        + ", ".join(
            f"{group} {cores * usage.seconds * 1000 / count:.1f}"
            for group, cores in spent
            if cores > 0.005
        )
    )
    run.series.append(
        Series(f"{name}: from the first call on", after_ms, [ms / 1000 for ms in after_ms])
    )


def _last_accepted_s(calls: list[Call], began_ns: int) -> float:
    """Return when the caller had the stream's word for the last task, seconds: its own share of the burst."""
    return max((max(call.accepted_ns, began_ns) - began_ns) / 1e9 for call in calls)
