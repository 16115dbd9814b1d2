"""The requests of eight seconds, and what users of a pool got for them. Both sides serve the same ones."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import suppress
from typing import NamedTuple

from agent_sandbox import Client
from labs.cluster import Cluster
from labs.frame import CannotRun
from shared.errors import ServiceError
from shared.percentiles import percentile

SECONDS = 8.0
RATE = 2.0
"""Visits a second, at random; each brings one to four requests at once, as an agent that tries several ways does."""
WIDEST = 4
LOOK_EVERY_S = 0.2
SERVED_S = 60.0


class Served(NamedTuple):
    """What a pool of some stock made of the trace."""

    stock: int
    p50_ms: float
    p95_ms: float
    cold_share: float
    """Share of requests that waited for a pod to start."""
    idle_pods: float
    """Pods that waited, on average: what the latency is paid with."""


def arrivals(seed: int = 3) -> list[float]:
    """Return when each request comes, seconds. The same seed, the same trace."""
    dice = random.Random(seed)
    found: list[float] = []
    at_s = dice.expovariate(RATE)
    while at_s < SECONDS:
        found += [at_s] * dice.randint(1, WIDEST)
        at_s += dice.expovariate(RATE)
    return found


async def serve(cluster: Cluster, client: Client, pool: str, stock: int) -> Served:
    """Send the trace to a pool; return what its users got."""
    await cluster.wait_full(pool, stock)
    idle: list[int] = []
    looking = asyncio.create_task(_look(cluster, pool, idle))
    began = time.monotonic()

    async def one(at_s: float) -> tuple[float, bool]:
        await asyncio.sleep(max(0.0, began + at_s - time.monotonic()))
        result = await client.run(["true"], pool=pool, wait_s=SERVED_S)
        if result.tti is None:
            raise CannotRun(
                f"a request of pool {pool} did not run: {result.status} {result.reason}"
            )
        return result.tti.tti_ms, result.tti.path != "warm"

    try:
        got = await asyncio.gather(*(one(at_s) for at_s in arrivals()))
    finally:
        looking.cancel()
    times = [ms for ms, _ in got]
    return Served(
        stock,
        percentile(times, 50),
        percentile(times, 95),
        sum(cold for _, cold in got) / len(got),
        sum(idle) / max(1, len(idle)),
    )


async def _look(cluster: Cluster, pool: str, idle: list[int]) -> None:
    while True:
        with suppress(ServiceError):
            idle.append((await cluster.pool(pool)).warm)
        await asyncio.sleep(LOOK_EVERY_S)
