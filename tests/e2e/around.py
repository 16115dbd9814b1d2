"""What there was around tasks, for a test that waited for them in vain."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from agent_sandbox import Client
from agent_sandbox.running import RunningTask
from shared.messages import Message
from shared.views import PoolsAnswer


async def around(client: Client, pool: str, tasks: Sequence[RunningTask]) -> str:
    """Return how a pool is, and of each task its record and its result; or why that can't be told."""
    told = await asyncio.gather(
        client.ask("pools", Message(), PoolsAnswer),
        *(client.session(task.session_id).show() for task in tasks),
        *(client.read_result(task.task_id) for task in tasks),
        return_exceptions=True,
    )
    pools = told[0]
    if isinstance(pools, PoolsAnswer):
        told[0] = [view for view in pools.pools if view.pool == pool]
    return "\n".join(map(repr, told))
