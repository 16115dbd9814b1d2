"""Publishes the tasks of a plan by the clock, and watches the pool meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from harness.cluster import Private
from harness.running import say
from priority_parts.crowd import Crowd, Shot

from pool_live_parts.plans import Plan
from shared.bus import Bus
from shared.views import PoolView

POOL = "people"
LOOK_S = 0.5
ALL_DONE_S = 120.0
SAY_S = 60.0


class Level(NamedTuple):
    """The pool at one moment."""

    at_s: float
    view: PoolView


class Seen(NamedTuple):
    """What was published, and how the pool was."""

    shots: list[Shot]
    levels: list[Level]


async def drive(cluster: Private, bus: Bus, plan: Plan, task_s: float) -> Seen:
    """Publish each task when it is due, whatever became of those before.

    Raises:
        CannotMeasure: some have no result long after the last was published, or the pool is not known.
    """
    crowd, clock = Crowd(bus, POOL, task_s), asyncio.get_running_loop().time
    await crowd.listen()
    shots: list[Shot] = []
    began = clock()

    async def publish(klass: str) -> None:
        shots.append(await crowd.publish(klass))

    async with _watch(cluster, began) as levels:
        said = 0.0
        async with asyncio.TaskGroup() as group:
            for due in plan.due:
                if (wait_s := began + due.at_s - clock()) > 0:
                    await asyncio.sleep(wait_s)
                group.create_task(publish(due.klass))
                if due.at_s - said >= SAY_S:
                    said = due.at_s
                    say(f"{due.at_s:.0f} of {plan.length_s:.0f} s, {crowd.open.total()} under way")
        await crowd.finished(shots, within_s=ALL_DONE_S)
    shots.sort(key=lambda shot: shot.called_ns)
    return Seen(shots, levels)


@asynccontextmanager
async def _watch(cluster: Private, began: float) -> AsyncIterator[list[Level]]:
    clock = asyncio.get_running_loop().time
    levels: list[Level] = []

    async def look() -> None:
        while True:
            view = await cluster.view(POOL)
            levels.append(Level(clock() - began, view))
            await asyncio.sleep(LOOK_S)

    looking = asyncio.create_task(look())
    try:
        yield levels
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
