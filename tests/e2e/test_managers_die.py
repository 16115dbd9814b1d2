"""Two pool-managers, one of them killed or stopped at any moment: no pod too many, no session given up."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from agent_sandbox import Client, Result
from agent_sandbox.session import Session

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

POOLS = """\
[[pool]]
name = "default"
stock = 6
[[pool]]
name = "cold"
stock = 0
[[pool]]
name = "quiet"
stock = 4
"""
QUIET = 4
"""Pods of a pool that nobody uses: whoever wakes from a stop must not take them for lost."""
STOCK = 6 + QUIET
SEED = 20_261
LASTS_S = 30.0
EVERY_S = {"default": 0.3, "cold": 0.6}
"""Between two one-shots of a pool."""
MANAGERS = ("pool-manager-1", "pool-manager-2")
SESSIONS = 4
PODS_PER_CLAIM_MAX = 1.05


async def disturb(cluster: Any, until: float) -> list[str]:
    """Kill or stop one pool-manager after the other until then; the other works meanwhile. Return what was done."""
    chance = random.Random(SEED)
    done = []
    while time.monotonic() < until:
        name = chance.choice(MANAGERS)
        await asyncio.sleep(chance.uniform(0.2, 2.0))
        if chance.random() < 0.5:
            cluster.send(name, signal.SIGKILL)
            done.append(f"{name} killed")
        else:
            still_s = chance.choice((0.5, 2.0, 5.0, 10.0))
            cluster.send(name, signal.SIGSTOP)
            await asyncio.sleep(still_s)
            cluster.send(name, signal.SIGCONT)
            done.append(f"{name} stopped for {still_s} s")
        await cluster.is_ready(name)
    return done


@asynccontextmanager
async def one_shots(client: Client, pool: str) -> AsyncIterator[list[asyncio.Task[Result]]]:
    """Publish one-shots by the clock while inside; wait for their results at the end."""
    calls: list[asyncio.Task[Result]] = []

    async def publish() -> None:
        while True:
            calls.append(asyncio.create_task(client.run(["true"], pool=pool)))
            await asyncio.sleep(EVERY_S[pool])

    publishing = asyncio.create_task(publish())
    try:
        yield calls
        publishing.cancel()
        await asyncio.gather(*calls)
    finally:
        for task in (publishing, *calls):
            task.cancel()


async def keep_busy(session: Session, results: list[Result]) -> None:
    """Give a session one task after the other: it is bound all the time."""
    while True:
        results.append(await session.python("n = globals().get('n', 0) + 1; n"))
        await asyncio.sleep(0.2)


async def test_killed_and_stopped_managers_start_no_pod_too_many_and_give_nobody_up(
    start_rough: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pods for each claim at most 1.05, warm and on demand; every epoch is the first, no result tells of a loss."""
    cluster = await start_rough(POOLS)
    steps: list[Result] = []
    async with cluster.client() as client, asyncio.TaskGroup() as group:
        sessions = [await client.create_session() for _ in range(SESSIONS)]
        busy = [group.create_task(keep_busy(session, steps)) for session in sessions]
        async with one_shots(client, "default") as warm, one_shots(client, "cold") as cold:
            done = await disturb(cluster, time.monotonic() + LASTS_S)
        for task in busy:
            task.cancel()
        await asyncio.gather(*busy, return_exceptions=True)
        results = [task.result() for task in (*warm, *cold)] + steps
        for session in sessions:
            await session.close()
        await _settled(cluster)

    claims = len(warm) + len(cold) + SESSIONS
    pods_per_claim = cluster.pods.per_claim(claims)
    with capsys.disabled():
        print(  # noqa: T201 - a figure for people
            f"\npods_per_claim {pods_per_claim:.3f}: {len(cluster.pods.seen)} pods, {claims} claims, {len(done)} faults: "
            f"{'; '.join(done)}"
        )
    assert claims > 120
    assert len(done) >= 4
    assert all(result.ok for result in results)
    assert sorted(pod for pod in cluster.pods.seen if pod.startswith("quiet-")) == [
        f"quiet-{slot}-1" for slot in range(QUIET)
    ]
    assert 1 <= pods_per_claim <= PODS_PER_CLAIM_MAX, "below 1: some were not seen"
    assert [result.raw.interruptions for result in results if result.raw.interruptions] == []
    moved = [record for record in await cluster.records() if record.epoch != 1 or record.losses]
    assert moved == []


async def _settled(cluster: Any) -> None:
    """Wait until nothing but the stock is there."""
    end = time.monotonic() + 30
    while cluster.pods.living != STOCK:
        assert time.monotonic() < end, cluster.pods.there
        await asyncio.sleep(0.2)
