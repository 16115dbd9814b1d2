"""All servers dead for 20 s, and one that comes back empty: sessions go on, nothing is lost."""

from __future__ import annotations

import asyncio
import shutil
import time
from typing import Any

import pytest

from agent_sandbox import Client, Result
from shared.bus import leaders
from shared.errors import ServiceError
from shared.ids import home
from shared.pools import PoolSpec
from shared.testing.look import until
from shared.topology import topology

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

POOLS = """\
[[pool]]
name = "default"
stock = 5
"""
STOCK = 5
DOWN_S = 20.0
TASK_S = 8.0
"""What the user code of a running task still has to do when the servers die."""
COUNTING = f"""
import time
began = last = time.monotonic()
gap = 0.0
ticks = 0
while ticks < {TASK_S * 10}:
    time.sleep(0.1)
    now = time.monotonic()
    gap, last, ticks = max(gap, now - last), now, ticks + 1
open("effect.txt", "a").write("once\\n")
print(round(gap, 1), open("effect.txt").read().count("once"))
"""


async def test_sessions_freeze_thaw_and_go_on_when_all_servers_were_down(start_rough: Any) -> None:
    """Under the same epoch, with the same interpreter; tasks that ran have one result; warm pods are still of use."""
    cluster = await start_rough(POOLS)
    async with cluster.client() as client, cluster.client(publish_s=60.0) as patient:
        async with cluster.client(publish_s=3.0) as hasty:
            sessions = [await client.create_session() for _ in range(3)]
            for session in sessions:
                await session.python("kept = 41")
            running = [await session.start_python(COUNTING) for session in sessions[:2]]
            await until(lambda: all(task.has_started for task in running))
            await until(lambda: cluster.pods.living == STOCK + 3)
            await cluster.look.in_state(sessions[0].id, "running")
            before = cluster.pods.seen.copy()
            async with cluster.without_servers("n1", "n2", "n3"):
                down_at = time.monotonic()
                waiting = asyncio.create_task(patient.run(["echo", "late"]))
                with pytest.raises(ServiceError):
                    await hasty.run(["echo", "never"])
                assert time.monotonic() - down_at < DOWN_S
                await asyncio.sleep(down_at + DOWN_S - time.monotonic())
            results = await asyncio.gather(*(task.result(wait_s=60) for task in running))
            kept = [await session.python("kept + 1") for session in sessions]
            late = await waiting

        for result in results:
            gap_s, effects = result.stdout.split()
            assert float(gap_s) > DOWN_S / 2, "user code ran on without contact"
            assert (result.status, result.raw.attempt, effects) == ("ok", 1, "1")
        assert [result.stdout.strip() for result in kept] == ["42"] * 3
        assert {result.raw.epoch for result in (*results, *kept)} == {1}
        assert late.stdout == "late\n"
        # All at once, so that none is left for a pod that takes the place of another meanwhile.
        new = await asyncio.gather(*(client.run(["sleep", "1"]) for _ in range(STOCK)))

    assert all(result.ok for result in new)
    used = {result.raw.worker for result in (late, *new)}
    assert len(used & before) >= STOCK - 2, "warm pods were replaced"
    assert len(cluster.pods.seen - before) <= len(new) + 2
    assert {(record.epoch, record.losses) for record in await cluster.records()} == {(1, 0)}


async def _steady(client: Client, results: list[Result]) -> None:
    """Run one-shots one after the other."""
    while True:
        results.append(await client.run(["true"]))


async def test_a_server_that_comes_back_empty_catches_up_and_leads_again(start_rough: Any) -> None:
    """While tasks go on. Then it holds everything: another one's death loses nothing."""
    cluster = await start_rough(POOLS)
    results: list[Result] = []
    async with cluster.client() as client, asyncio.TaskGroup() as group:
        session = await client.create_session()
        work = group.create_task(_steady(client, results))
        await until(lambda: len(results) >= 12, within_s=30)
        async with cluster.without_servers("n2"):
            await asyncio.to_thread(shutil.rmtree, cluster.folder.servers / "n2" / "js")
        await cluster.whole()
        await until(lambda: _leads_its_shard(cluster), within_s=90)
        assert (await session.python("6 * 7")).stdout.strip() == "42"
        async with cluster.without_servers("n1"):
            done = len(results)
            await until(lambda: len(results) >= done + 5, within_s=40)
            work.cancel()
            read = {r.task_id: await _read(client, r.task_id) for r in results}

    assert all(result.ok for result in results)
    assert {home(task) for task in read} == {0, 1, 2}
    assert [task for task, found in read.items() if found is None or not found.ok] == []
    assert {(record.epoch, record.losses) for record in await cluster.records()} == {(1, 0)}


async def _read(client: Client, task: str) -> Result | None:
    return await client.read_result(task)


async def _leads_its_shard(cluster: Any) -> bool:
    """Return whether n2 leads all that belongs to it; the pool-managers see to that."""
    wanted = topology((PoolSpec(name="default"),), created_ms=0)
    for led in leaders.all_led(wanted):
        if led.server == 1:
            try:
                state = await leaders.state_of(cluster.admin, led)
            except ServiceError:
                return False
            if state.get("leader") != "n2":
                await asyncio.sleep(1)
                return False
    return True
