"""Looks at machine and pools every few seconds, and slows users down where the machine is too busy to measure on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from chaos.core.rows import Gauge, Held, Usage
from chaos.loops.users import Stage

EVERY_S = 2.0
USAGE_EVERY_S = 20.0
PRESSURE_MAX = 0.5
"""Share of time in which something waited for a processor; above it, users think longer."""
SLOWER = 1.15
THINK_MAX = 4.0

Pools = dict[str, tuple[int, int, int]]
ReadWaited = Callable[[], float | None]
AskPools = Callable[[], Awaitable[Pools]]


async def watch_gauges(
    read_waited: ReadWaited, ask_pools: AskPools, stage: Stage, until_s: float
) -> None:
    """Write gauges for ever.

    Args:
        read_waited: seconds so far in which something waited for a processor; None: the kernel does not tell.
        ask_pools: warm, starting and bound by pool.
        stage: the run.
        until_s: users are slowed down until then, before the first fault: afterwards the load stays as it is.
    """
    before, before_at = read_waited(), stage.notes.now()
    while True:
        await asyncio.sleep(EVERY_S)
        after, now = read_waited(), stage.notes.now()
        pressure = None
        if before is not None and after is not None:
            pressure = (after - before) / max(0.001, now - before_at)
        stage.standing.pressure = pressure
        pools = await ask_pools()
        stage.notes.write(Gauge(time=now, pressure=pressure, think=stage.pace.think, pools=pools))
        if pressure is not None and pressure >= PRESSURE_MAX and now < until_s:
            stage.pace.think = min(THINK_MAX, stage.pace.think * SLOWER)
        before, before_at = after, now


async def watch_usage(read_held: Callable[[], dict[str, Held]], stage: Stage) -> None:
    """Write down for ever what the services hold."""
    while True:
        services = await asyncio.to_thread(read_held)
        if services:
            stage.notes.write(Usage(time=stage.notes.now(), services=services))
        await asyncio.sleep(USAGE_EVERY_S)
