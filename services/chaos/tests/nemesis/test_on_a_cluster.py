"""Each fault on a running cluster: it bites, it is taken back, and the cluster goes on."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from random import Random

import pytest

from agent_sandbox import Client
from agent_sandbox.embedded.table import Kind
from chaos.adapters.cluster import Embedded, embedded
from chaos.adapters.ground import NoGround
from chaos.nemesis import FAULTS
from chaos.ports import Need
from shared.errors import ServiceError
from shared.pools import PoolSpec

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

POOL = PoolSpec(name="default", stock=6, pods_max=24, idle_release_s=2)
NODES = 4
SESSIONS = 4
LASTS_S = 6.0
"""Long enough for a node to be given up."""
WELL_S = 90.0
KINDS: tuple[Kind, ...] = ("server", "node", "manager")
PROCESSES = (
    "nodes-killed", "nodes-stopped", "queue-leader-killed", "queue-leader-ended", "pool-manager-killed",
    "pool-managers-killed", "checkpointer-killed", "checkpointer-stopped", "double-fault", "server-wiped",
    "server-damaged", "server-truncated", "poison-task", "nodes-killed-in-burst", "connection-storm",
)  # fmt: skip
GROUNDS: dict[str, tuple[frozenset[Need], Sequence[str]]] = {
    "processes": (frozenset(), PROCESSES),
    "network": (
        frozenset({"relays"}),
        ("nodes-vanish", "nodes-cut-to-servers", "nodes-cut-from-servers", "lossy-network", "slow-store"),
    ),
    "failpoints": (frozenset({"failpoints"}), ("killed-while-saving", "killed-while-restoring")),
    "disks": (
        frozenset({"store_folder", "store_disk", "node_disk", "server_disk"}),
        ("store-disk-full", "node-disk-full", "server-disk-full", "snapshots-damaged"),
    ),
    "power": (frozenset({"power"}), ("power-loss",)),
    "clocks": (frozenset({"clocks"}), ("clock-jumps",)),
    "hogs": (frozenset(), ("processor-hogs", "memory-hog")),
}  # fmt: skip


@contextlib.asynccontextmanager
async def users(client: Client) -> AsyncIterator[None]:
    """Some sessions that write a file again and again while inside, whatever becomes of it."""

    async def one() -> None:
        session = await client.create_session(pool=POOL.name)
        while True:
            with contextlib.suppress(ServiceError, TimeoutError):
                await session.exec("date >> log", wait_s=30)
            await asyncio.sleep(0.5)

    tasks = [asyncio.create_task(one()) for _ in range(SESSIONS)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def is_well(cluster: Embedded, client: Client) -> None:
    """Wait until everything runs again, and something new is done."""
    async with asyncio.timeout(WELL_S):
        while True:
            rows = [row for kind in KINDS for row in cluster.rows(kind)]
            if all(
                row.state == "running" and row.process and row.process.is_alive() for row in rows
            ):
                with contextlib.suppress(ServiceError, TimeoutError):
                    (await client.run(["true"], pool=POOL.name, wait_s=20)).check()
                    return
            await asyncio.sleep(0.2)


@pytest.mark.parametrize("ground", GROUNDS)
async def test_each_fault_bites_and_the_cluster_goes_on(ground: str) -> None:
    """One after the other, on a cluster with what they need."""
    needs, names = GROUNDS[ground]
    began = time.monotonic()
    said: dict[str, str] = {}
    try:
        async with (
            embedded(POOL, NODES, lambda: time.monotonic() - began, print, needs) as cluster,
            cluster.client() as client,
            users(client),
        ):
            await cluster.wait_warm(POOL.name, POOL.stock // 2, print)
            for number, name in enumerate(names):
                fault = FAULTS[name](cluster, Random(number))
                try:
                    done = await fault.inject()
                    await asyncio.sleep(min(fault.lasts_s, LASTS_S))
                finally:
                    await fault.heal()
                said[name] = await fault.missed() or await fault.failed()
                assert done.targets
                await is_well(cluster, client)
    except NoGround as exc:
        pytest.skip(f"the ground can't be laid: {exc}")

    assert said == dict.fromkeys(names, "")


def test_each_fault_is_driven() -> None:
    """None is promised that no test has seen."""
    driven = [name for _, names in GROUNDS.values() for name in names]
    assert sorted(driven) == sorted(FAULTS)
