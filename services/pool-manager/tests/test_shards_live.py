"""A state shard without a leader is said to be down, to clients too, as long as that lasts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agent_sandbox.over_nats.drawing import IdDrawer
from pool_manager.adapters.nodes import BusVoice
from pool_manager.adapters.truth import StreamTruth
from pool_manager.loops.shards import ShardWatch
from shared import messages, subjects
from shared.bus import Bus
from shared.cluster import Cluster
from shared.identity import roles
from shared.ids import home
from shared.shards import ShardsDown
from shared.testing.look import until


@pytest.mark.slow
async def test_clients_draw_no_id_whose_home_lost_its_leader(
    private_cluster: Cluster, connect: Any, connect_client: Any
) -> None:
    """Within a second of the server's death; and all homes again when a new leader is elected."""
    bus: Bus = await connect(roles.pool_manager("pm-1"), name="pm-1", cluster=private_cluster)
    client: Bus = await connect_client("acme", cluster=private_cluster)
    said: list[tuple[int, ...]] = []
    drawer = IdDrawer()
    await drawer.listen(client)
    await client.subscribe(
        subjects.SHARDS_DOWN,
        lambda message: said.append(messages.decode(message.data, ShardsDown).down),
    )

    def homes() -> set[int]:
        return {home(drawer.draw()) for _ in range(60)}

    watch = asyncio.create_task(ShardWatch(StreamTruth(bus), BusVoice(bus)).run())
    try:
        before = homes()
        leads_1 = private_cluster.server("n2")
        leads_1.kill()
        await until(lambda: homes() == {0, 2})
        await until(lambda: homes() == {0, 1, 2}, within_s=20)
    finally:
        watch.cancel()

    assert before == {0, 1, 2}
    assert set(said) == {(1,)}
