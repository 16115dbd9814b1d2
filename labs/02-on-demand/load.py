"""Requests at several rates, in an open loop: who comes does not ask whether the ones before have been served."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from labs.frame import Figures, Say
from shared.percentiles import percentile

RATES = (1.0, 2.0, 4.0)
"""Requests a second, for each processor of this machine."""
SECONDS = 2.5
ALONE = 8


class Row(NamedTuple):
    """One rate."""

    rate: float
    p50_ms: float
    p95_ms: float


Start = Callable[[], Awaitable[float]]
"""Starts a pod for a request; returns the time to its user's first instruction, milliseconds."""


async def measure(start: Start, say: Say) -> Figures:
    """Start alone, then at climbing rates; return the figures that both sides have.

    How fast a machine is, and how busy, is taken out: times are counted in starts of a bare interpreter as well.
    """
    bare = [await _bare_ms() for _ in range(ALONE)]
    alone = [await start() for _ in range(ALONE)]
    bare_ms, alone_ms = percentile(bare, 50), percentile(alone, 50)
    say(f"alone {alone_ms:.0f} ms; a bare interpreter starts in {bare_ms:.0f} ms")
    rows = await _climb(start, say)
    return {
        "alone_in_bare_starts": min(alone) / min(bare),
        "top_rate_p95_in_bare_starts": rows[-1].p95_ms / bare_ms,
        "bare_start_ms": bare_ms,
        "alone_p50_ms": alone_ms,
        "top_rate_p95_ms": rows[-1].p95_ms,
        "top_rate_a_second": rows[-1].rate,
        "rates": [list(row) for row in rows],
    }


async def _bare_ms() -> float:
    """Return how long an interpreter takes to start, do nothing, and end."""
    began = time.monotonic()
    process = await asyncio.create_subprocess_exec(sys.executable, "-I", "-S", "-c", "")
    await process.wait()
    return (time.monotonic() - began) * 1000


async def _climb(start: Start, say: Say) -> list[Row]:
    """Serve each rate for some seconds; the next one begins when all are served."""
    rows = []
    for rate in RATES:
        a_second = rate * (os.cpu_count() or 1)
        count = max(3, round(a_second * SECONDS))
        began = time.monotonic()

        async def one(number: int, a_second: float = a_second, began: float = began) -> float:
            await asyncio.sleep(max(0.0, began + number / a_second - time.monotonic()))
            return await start()

        times = await asyncio.gather(*(one(number) for number in range(count)))
        rows.append(Row(a_second, percentile(times, 50), percentile(times, 95)))
        say(
            f"{a_second:g} requests a second: median {rows[-1].p50_ms:.0f} ms, p95 {rows[-1].p95_ms:.0f} ms"
        )
    return rows
