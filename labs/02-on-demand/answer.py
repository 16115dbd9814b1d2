"""The answer: what all pods have in common is paid once, by a process that forks; only the rest happens on demand."""

from __future__ import annotations

import load

from agent_sandbox import Client
from labs.cluster import embedded
from labs.frame import CannotRun, Figures, Say, side
from shared.pools import PoolSpec

POOL = PoolSpec(name="labs", stock=0, pods_max=512)
"""No pod waits: that is the next lab's."""
SERVED_S = 60.0


async def measure(say: Say) -> Figures:
    """Start a sandbox for each request, at climbing rates."""
    async with embedded((POOL,), say) as cluster, cluster.client() as client:

        async def start() -> float:
            return await _start(client)

        await start()
        return await load.measure(start, say)


async def _start(client: Client) -> float:
    result = await client.run(["true"], pool=POOL.name, wait_s=SERVED_S)
    if result.tti is None:
        raise CannotRun(f"a request did not run: {result.status} {result.reason}")
    return result.tti.tti_ms


if __name__ == "__main__":
    side(measure)
