"""Starts on demand: a pool where nobody waits, and the start path of a node by itself."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise

from harness import start_path
from harness.cluster import pool, private_cluster
from harness.load import CODE, Call, Caller, check_calls, make_caller, open_loop, task_id
from harness.observe import Heard, observe
from harness.pictures import Series
from harness.report import table
from harness.running import say
from harness.stages import MS_NS
from harness.stats import summarize

from tti_parts.options import Run

POOL = "demand"
ONE_AFTER_ANOTHER = 40
PAUSE_S = 0.25
RATE = 2.0
RATE_S = 15.0
STARTS = 100
START_PAUSE_S = 0.05
STAGES = {
    "accept": "call -> the queue holds the task",
    "notice": "queue -> a pool-manager has reserved a pod's name",
    "pod": "reserved -> the pod's first heartbeat",
    "pull": "heartbeat -> the task is pulled",
    "claim": "pulled -> the record is stored",
    "start": "stored -> first user instruction",
}


async def measure(run: Run) -> None:
    """Enter the figures of tasks for which a pod must be started."""
    async with (
        private_cluster(
            (pool(POOL, stock=0, pods_max=64),), isolation=run.options.isolation
        ) as cluster,
        cluster.client() as client,
        observe(cluster.admin, POOL) as heard,
    ):
        caller = await make_caller(run.options.caller, client)
        say(f"on demand: {ONE_AFTER_ANOTHER} calls one after another")
        calls = (await _one_after_another(caller, ONE_AFTER_ANOTHER + 1))[
            1:
        ]  # the first pays for caches
        say(f"on demand: {RATE:g} calls each second for {RATE_S:g} s")
        at_rate = await open_loop(
            round(RATE * RATE_S), RATE, lambda call: caller.call(call, POOL, CODE)
        )
    for name, group in (("on_demand", calls), ("on_demand_rate", at_rate)):
        reached = check_calls(group)
        run.isolation.update(call.result.isolation for call in reached if call.result)
        found = summarize([call.tti_ms for call in group])
        run.report.add(f"{name}_p50_ms", found.p50)
        run.report.add(f"{name}_p90_ms", found.p90)
        run.report.add(f"{name}_max_ms", found.max)
        run.report.add(f"{name}_lost", len(group) - len(reached))
    run.report.sections.append(_stages(calls, heard))
    targets = [
        (f"{t.figure} {t.describe()}", t.reach)
        for t in run.report.targets
        if t.figure == "on_demand_p50_ms"
    ]
    at_s = [(call.called_ns - calls[0].called_ns) / 1e9 for call in calls]
    run.series.append(
        Series("on demand, one after another", [call.tti_ms for call in calls], at_s, targets)
    )


async def measure_start(run: Run) -> None:
    """Enter the figures of a node's start path alone."""
    start_path.importable()
    isolation, starts = await start_path.measure_starts(
        STARTS, run.options.isolation, START_PAUSE_S
    )
    run.isolation.add(isolation)
    ready = summarize([start.ready_ms for start in starts])
    run.report.add("start_alone_p50_ms", ready.p50)
    run.report.add("start_alone_p90_ms", ready.p90)
    run.report.add("start_alone_max_ms", ready.max)
    run.report.add(
        "start_alone_forked_p50_ms", summarize([start.forked_ms for start in starts]).p50
    )


async def _one_after_another(caller: Caller, count: int) -> list[Call]:
    calls = []
    for number in range(count):
        calls.append(Call(task=task_id(number), due_ns=time.time_ns()))
        await caller.call(calls[-1], POOL, CODE)
        await asyncio.sleep(PAUSE_S)
    return calls


def _stages(calls: list[Call], heard: Heard) -> str:
    """Return where the time of a start on demand goes, as a table."""
    ways = []
    for call in calls:
        worker = call.result.worker if call.result else ""
        moments = (
            heard.bells.get(call.task), heard.pods.get(worker), heard.workers.get(worker), heard.records.get(call.task),
        )  # fmt: skip
        if call.user_ns is None or call.result is None or None in moments:
            continue
        bell, reserved, beat, record = (moment or 0 for moment in moments)
        pulled = int(call.result.timing.delivered_ms * MS_NS)
        way = [call.called_ns, bell, reserved, beat, pulled, record, call.user_ns]
        ways.append([(after - before) / MS_NS for before, after in pairwise(way)])
    rows = []
    for index, (stage, meaning) in enumerate(STAGES.items()):
        if ways:
            found = summarize([way[index] for way in ways])
            rows.append(
                [
                    f"{stage}: {meaning}",
                    *(f"{value:.2f}" for value in (found.mean, found.p50, found.p90, found.max)),
                ]
            )
    head = ["stage", "mean", "p50", "p90", "max"]
    return (
        f"on demand: where the time goes ({len(ways)} of {len(calls)} tasks), milliseconds\n"
        + table(head, rows)
    )
