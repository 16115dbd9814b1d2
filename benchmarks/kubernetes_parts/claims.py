"""Claims on a warm pool: at steady rates and at once, with what the Kubernetes API server had to do for them."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.api import of_pool, writes_between, writes_table
from harness.load import (
    CODE,
    HOLDING_CODE,
    Call,
    check_calls,
    make_caller,
    open_loop,
    without_pauses,
)
from harness.observe import Heard, observe
from harness.pictures import Series
from harness.report import Report
from harness.running import say
from harness.site import Site
from harness.stages import is_warm, stage_rows
from harness.stats import percentile, summarize
from tti_parts.warm import stage_table

from shared.testing.audit import Request

ALL_HEARD_S = 4.0
"""Two periods of a warm worker's heartbeat."""
SETTLE_S = 6.0
"""After a pool is full again: the last pods' ends are written down until then."""
HOLD_S = 3.0
"""Each task of a burst keeps its worker until all have started."""


@dataclass
class Measured:
    """What the parts enter their figures into."""

    site: Site
    report: Report
    audit_log: Path | None
    who_measures: str
    series: list[Series] = field(default_factory=list)
    claims: int = 0
    writes: list[Request] = field(default_factory=list)
    """Of all claims so far, refill and clearing up included."""

    async def count(self, span_s: tuple[float, float], pool: str) -> list[Request]:
        """Return the writes to the API server in a span of time, but for other pools' pods; none where its log can't be read."""
        if self.audit_log is None:
            return []
        spaces = tuple(self.site.spaces)
        found = await asyncio.to_thread(
            writes_between, self.audit_log, span_s, spaces, self.who_measures
        )
        return of_pool(found, self.site.spaces.pods, pool)


async def at_rate(run: Measured, pool: str, stock: int, rate: float, count: int) -> None:
    """Enter the figures of so many claims at a steady rate, refill on.

    Args:
        run: where to enter them.
        pool: its name.
        stock: its warm pods.
        rate: calls for each second.
        count: calls.
    """
    name = f"{rate:g}"
    async with run.site.client() as client, observe(run.site.admin, pool) as heard:
        await run.site.wait_warm(pool, stock)
        caller = await make_caller("library", client)
        await caller.call(Call(task=f"first-{time.time_ns():x}", due_ns=0), pool, CODE)
        await run.site.wait_warm(pool, stock)
        await asyncio.sleep(ALL_HEARD_S)
        say(f"{count} claims, {name} each second, on {stock} warm pods")
        began_s = time.time()
        async with without_pauses():
            calls = await open_loop(count, rate, lambda call: caller.call(call, pool, CODE))
        await _settle(run, pool, stock, began_s, count)
    _enter(run, name, calls, heard)


async def burst(run: Measured, pool: str, stock: int, count: int) -> None:
    """Enter the figures of so many claims at once, on a pool that has more warm pods than that, refill on."""
    async with run.site.client() as client, observe(run.site.admin, pool) as heard:
        await run.site.wait_warm(pool, stock)
        caller = await make_caller("library", client)
        await asyncio.sleep(ALL_HEARD_S)
        say(f"{count} claims at once on {stock} warm pods")
        code, began_s = HOLDING_CODE.format(seconds=HOLD_S), time.time()
        async with without_pauses():
            calls = await open_loop(count, math.inf, lambda call: caller.call(call, pool, code))
        await _settle(run, pool, stock, began_s, count)
    reached = check_calls(calls)
    began_ns = min(call.called_ns for call in calls)
    after_ms = [call.tti_ms + (call.called_ns - began_ns) / 1e6 for call in calls]
    name, report = f"burst{count}", run.report
    report.add(f"{name}_all_started_s", max(after_ms) / 1000)
    report.add(f"{name}_p50_ms", percentile(after_ms, 50))
    report.add(f"{name}_lost", count - len(reached))
    report.add(f"{name}_warm_share", sum(is_warm(call, heard) for call in calls) / count)
    rows = stage_rows(calls, heard)
    report.sections.append(stage_table(f"{name}: where the time goes, milliseconds", rows))
    at_s = [ms / 1000 for ms in after_ms]
    run.series.append(Series(f"{name}: from the first call on", after_ms, at_s))


async def still(run: Measured, pool: str, count: int) -> None:
    """Enter how many writes claims themselves cost: on a pool that may have no further pod, so that nothing is refilled."""
    await run.site.wait_warm(pool, count)
    async with run.site.client() as client:
        caller = await make_caller("library", client)
        say(f"{count} claims at once, where no pod may be added: what they write themselves")
        code = HOLDING_CODE.format(seconds=HOLD_S)
        calls = await open_loop(count, math.inf, lambda call: caller.call(call, pool, code))
    check_calls(calls)
    first_s = min(call.called_ns for call in calls) / 1e9
    last_s = max(call.user_ns or 0 for call in calls) / 1e9
    found = await run.count((first_s, last_s), pool)
    if run.audit_log is None:
        run.report.notes.append("no audit log: writes to the API server were not counted")
        return
    run.report.add("api_writes_per_claim_sync", len(found) / count)
    run.report.sections.append(
        writes_table(f"writes from the first call to the last start of {count}", found, count)
    )


def enter_writes(run: Measured) -> None:
    """Enter what all claims together cost the API server."""
    if run.audit_log is None or not run.claims:
        return
    run.report.add("api_writes_per_claim_total", len(run.writes) / run.claims)
    title = f"writes for {run.claims} claims, refill and clearing up included"
    run.report.sections.append(writes_table(title, run.writes, run.claims))


async def _settle(run: Measured, pool: str, stock: int, began_s: float, claims: int) -> None:
    """Wait until all is as before, and count what that has cost."""
    await run.site.wait_warm(pool, stock)
    await asyncio.sleep(SETTLE_S)
    run.writes += await run.count((began_s, time.time()), pool)
    run.claims += claims


def _enter(run: Measured, rate: str, calls: Sequence[Call], heard: Heard) -> None:
    reached, report = check_calls(list(calls)), run.report
    found = summarize([call.tti_ms for call in calls])
    report.add(f"warm_p50_ms_{rate}", found.p50)
    report.add(f"warm_p99_ms_{rate}", found.p99)
    report.add(f"warm_max_ms_{rate}", found.max)
    report.add(f"warm_share_{rate}", sum(is_warm(call, heard) for call in calls) / len(calls))
    report.add(f"warm_lost_{rate}", len(calls) - len(reached))
    late = [(call.called_ns - call.due_ns) / 1e6 for call in calls]
    report.add(f"call_late_p99_ms_{rate}", percentile(late, 99))
    for why in sorted({call.why_lost() for call in calls if call.user_ns is None}):
        report.notes.append(f"{rate}/s: lost: {why}")
    title = f"{rate}/s: where the time goes, milliseconds"
    report.sections.append(stage_table(title, stage_rows(calls, heard)))
    targets = [
        (f"{target.figure} {target.describe()}", target.reach)
        for target in report.targets
        if target.figure in (f"warm_p50_ms_{rate}", f"warm_p99_ms_{rate}")
    ]
    first_ns = calls[0].called_ns
    at_s = [(call.called_ns - first_ns) / 1e9 for call in calls]
    run.series.append(Series(f"warm, {rate}/s", [call.tti_ms for call in calls], at_s, targets))
