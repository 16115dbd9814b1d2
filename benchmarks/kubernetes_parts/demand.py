"""Starts on demand: a pool where nobody waits, so each task has a pod made for it by Kubernetes."""

from __future__ import annotations

import asyncio
import time

from harness.load import CODE, Call, check_calls, make_caller, task_id
from harness.pictures import Series
from harness.running import say
from harness.stats import summarize

from kubernetes_parts.claims import Measured

PAUSE_S = 1.0
"""Between two calls: the pod before is cleared away meanwhile."""


async def on_demand(run: Measured, pool: str, runtime: str, count: int) -> None:
    """Enter the figures of so many starts, one after another.

    Args:
        run: where to enter them.
        pool: without a stock.
        runtime: name in the figures.
        count: starts that are counted; one more comes first, and pays for what all share.
    """
    say(f"{count} starts on demand on {runtime}")
    calls: list[Call] = []
    async with run.site.client() as client:
        caller = await make_caller("library", client)
        for number in range(count + 1):
            calls.append(Call(task=task_id(number), due_ns=time.time_ns()))
            await caller.call(calls[-1], pool, CODE)
            await asyncio.sleep(PAUSE_S)
    counted = calls[1:]
    reached = check_calls(counted)
    found = summarize([call.tti_ms for call in counted])
    run.report.add(f"on_demand_p50_ms_{runtime}", found.p50)
    run.report.add(f"on_demand_max_ms_{runtime}", found.max)
    run.report.add(f"on_demand_lost_{runtime}", count - len(reached))
    at_s = [(call.called_ns - counted[0].called_ns) / 1e9 for call in counted]
    run.series.append(Series(f"on demand, {runtime}", [call.tti_ms for call in counted], at_s))
    for why in sorted({call.why_lost() for call in counted if call.user_ns is None}):
        run.report.notes.append(f"on demand, {runtime}: lost: {why}")
