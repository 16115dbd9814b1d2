"""Taking turns: each caller has the machine for a moment, again and again, so that what disturbs meets all alike."""

from __future__ import annotations

import asyncio
import random
import time

from harness.load import without_pauses

from bus_parts.callers import Caller

TURN_S = 0.25
WARM_UP_S = 0.5


async def side_by_side(
    callers: list[Caller], body: bytes, coroutines: int, seconds: float
) -> dict[str, list[float]]:
    """Let each caller keep so many publishes in flight for a turn, round after round, in a drawn order.

    Returns:
        Acknowledged publishes for each second of each caller's turns; positions of one round are equal.
    """
    rates: dict[str, list[float]] = {caller.name: [] for caller in callers}
    for caller in callers:
        await _turn(caller, body, coroutines, WARM_UP_S)
    for _ in range(max(3, round(seconds / TURN_S))):
        for caller in random.sample(callers, len(callers)):
            async with without_pauses():
                rates[caller.name].append(await _turn(caller, body, coroutines, TURN_S))
    return rates


async def _turn(caller: Caller, body: bytes, coroutines: int, seconds: float) -> float:
    """Publish for so long; return the publishes for each second."""
    began, before = time.perf_counter(), caller.acked

    async def publish() -> None:
        while time.perf_counter() - began < seconds:
            await caller.publish(body)

    await asyncio.gather(*(publish() for _ in range(coroutines)))
    return (caller.acked - before) / (time.perf_counter() - began)


async def one_by_one(
    callers: list[Caller], body: bytes, seconds: float
) -> dict[str, list[tuple[float, float]]]:
    """Publish once through each caller, then again, in a drawn order; nothing else is in flight.

    Returns:
        (when, how long) of each publish of each caller, seconds.
    """
    took: dict[str, list[tuple[float, float]]] = {caller.name: [] for caller in callers}
    first = time.perf_counter()
    async with without_pauses():
        while time.perf_counter() - first < seconds * len(callers):
            for caller in random.sample(callers, len(callers)):
                began = time.perf_counter()
                await caller.publish(body)
                took[caller.name].append((began - first, time.perf_counter() - began))
    return took
