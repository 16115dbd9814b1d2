"""The wall: a pod for each request, started when the request is there."""

from __future__ import annotations

import arriving

from labs.cluster import embedded
from labs.frame import Figures, Say, side
from shared.pools import PoolSpec

POOL = PoolSpec(name="stock-0", stock=0)


async def measure(say: Say) -> Figures:
    """Serve the trace without any stock."""
    async with embedded((POOL,), say) as cluster, cluster.client() as client:
        await client.run(["true"], pool=POOL.name)
        served = await arriving.serve(cluster, client, POOL.name, 0)
        say(f"{served.cold_share:.0%} waited for a pod; median {served.p50_ms:.0f} ms")
        return {
            "cold_share": served.cold_share,
            "p50_ms": served.p50_ms,
            "p95_ms": served.p95_ms,
            "idle_pods": served.idle_pods,
            "stock": 0,
            "requests": len(arriving.arrivals()),
            "curve": [list(served)],
        }


if __name__ == "__main__":
    side(measure)
