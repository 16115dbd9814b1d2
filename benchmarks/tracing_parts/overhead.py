"""What traces cost: one cluster that exports them and one that does not, asked in turns."""

from __future__ import annotations

import time
from typing import NamedTuple

from harness import usage
from harness.cluster import Private
from harness.running import CannotMeasure

from agent_sandbox import Client

POOL = "default"
TURN = 10
"""Tasks of one cluster before it is the other's turn."""
CODE = "pass"


class Side(NamedTuple):
    """One of the two clusters."""

    name: str
    cluster: Private
    client: Client
    tti_ms: list[float]
    total_ms: list[float]
    cpu_s: list[float]
    """Of the cluster's processes in each turn."""


async def take_turns(sides: list[Side], stock: int, seconds: float) -> None:
    """Let both run tasks, one after another, in turns.

    Raises:
        CannotMeasure: a task did not end well.
    """
    until, turn = time.monotonic() + seconds, 0
    while time.monotonic() < until or turn < len(sides):
        side = sides[turn % len(sides)]
        turn += 1
        await side.cluster.wait_warm(POOL, stock)
        first = usage.look(side.cluster.roots())
        for _ in range(min(TURN, stock)):
            result = await side.client.run(code=CODE)
            if result.status != "ok" or result.tti_s is None:
                raise CannotMeasure(f"{side.name}: a task ended as {result.status}")
            side.tti_ms.append(1000 * result.tti_s)
            side.total_ms.append(1000 * result.total_s)
        used = usage.between(first, usage.look(side.cluster.roots()))
        side.cpu_s.append((used.total - used.cores["client"]) * used.seconds)
