"""A publish whose stream elects its leader is accepted late, not refused as if there were no such stream."""

from __future__ import annotations

import asyncio
import time
from typing import Any
from uuid import uuid4

import pytest

from agent_sandbox.orders import Order
from agent_sandbox.over_nats.publishing import publish_order
from shared import subjects
from shared.bus import Bus
from shared.cluster import Cluster
from shared.errors import NotFound, Unavailable
from shared.ids import home


def order(pool: str | None = None) -> Order:
    """Return a session's next task, or with a pool a session's first."""
    session, task = str(uuid4()), str(uuid4())
    if pool is not None:
        task = session
    return Order(tenant="acme", session=session, task=task, body=b"{}", pool=pool, wait_s=1)


@pytest.mark.slow
async def test_tasks_are_accepted_when_their_shard_has_a_leader_again(
    private_cluster: Cluster, connect: Any, connect_client: Any
) -> None:
    """With one server dead for its shard's sessions, with all restarted for everything."""
    client: Bus = await connect_client("acme", cluster=private_cluster)
    admin: Bus = await connect(cluster=private_cluster)
    mine = order()
    while home(mine.session) != 1:
        mine = order()
    first = order("default")

    private_cluster.server("n2").kill()
    await publish_order(client, mine, time.monotonic() + 15)
    for server in private_cluster.servers:
        server.kill()
    for server in private_cluster.servers:
        server.start(die_with_parent=True)
    await publish_order(client, first, time.monotonic() + 25)

    await asyncio.to_thread(private_cluster.wait_ready)

    stored = await admin.read_last("I1", subjects.inbox("acme", mine.session))
    assert stored is not None
    queued = [
        found
        for shard in range(3)
        if (found := await admin.read_last(f"Q{shard}", "q.*.acme.default.interactive")) is not None
    ]
    assert [found.headers["Nats-Msg-Id"] for found in queued] == [first.task]


async def test_what_no_stream_takes_in_time_is_surely_not_accepted(connect_client: Any) -> None:
    """No pool-manager is there that could say whether there is such a pool."""
    client: Bus = await connect_client("acme")

    with pytest.raises(Unavailable) as refused:
        await publish_order(client, order("no-such-pool"), time.monotonic() + 2)

    assert not isinstance(refused.value, NotFound)
    assert refused.value.definite
