"""The answer: pods that wait. How many? The curve is measured, and the sum that says where to sit on it is made."""

from __future__ import annotations

import asyncio
import math
import time

import arriving

from agent_sandbox import Client
from labs.cluster import Cluster, embedded
from labs.frame import Figures, Say, side
from shared.pools import PoolSpec

STOCKS = (1, 2, 4, 8, 12)
Z = 2.5
"""Standard deviations of demand to be ready for: hardly one request in a hundred may wait."""
REFILL_TRIES = 3


async def measure(say: Say) -> Figures:
    """Serve the same trace from each stock; sit where the sum says."""
    pools = tuple(PoolSpec(name=f"stock-{stock}", stock=stock) for stock in (0, *STOCKS))
    async with embedded(pools, say) as cluster, cluster.client() as client:
        refill_s = await _refill_s(client)
        wanted = stock_for(refill_s)
        curve = [await _serve(cluster, client, stock, say) for stock in STOCKS]
        chosen = next((one for one in curve if one.stock >= wanted), curve[-1])
        say(f"a refill takes {refill_s:.2f} s: {wanted} pods are wanted, {chosen.stock} it is")
        return {
            "cold_share": chosen.cold_share,
            "p50_ms": chosen.p50_ms,
            "p95_ms": chosen.p95_ms,
            "idle_pods": chosen.idle_pods,
            "stock": chosen.stock,
            "requests": len(arriving.arrivals()),
            "stock_by_the_sum": wanted,
            "refill_s": refill_s,
            "curve": [list(one) for one in curve],
        }


def stock_for(refill_s: float) -> int:
    """Return the stock that covers what comes while a pod starts: its mean, and Z standard deviations.

    Visits come at random, and each takes several pods at once. Of such a sum the variance is not the mean `m` but `D · m`,
    where `D`, the dispersion, is the mean square of a visit's size divided by its mean. A refill cannot begin before the
    visit is there, so the widest one must fit, too.
    """
    sizes = range(1, arriving.WIDEST + 1)
    size = sum(sizes) / len(sizes)
    dispersion = sum(n * n for n in sizes) / len(sizes) / size
    mean = arriving.RATE * size * refill_s
    return max(arriving.WIDEST, math.ceil(mean + Z * math.sqrt(dispersion * mean)))


async def _refill_s(client: Client) -> float:
    """Return how long the pods of a visit take to be there, seconds: the slowest of the widest, and of a few of these.

    They start at once, and share the processors: one pod that starts alone is no measure.
    """
    found = []
    for _ in range(REFILL_TRIES):
        began = time.monotonic()
        pods = (client.run(["true"], pool="stock-0") for _ in range(arriving.WIDEST))
        await asyncio.gather(*pods)
        found.append(time.monotonic() - began)
    return max(found)


async def _serve(cluster: Cluster, client: Client, stock: int, say: Say) -> arriving.Served:
    served = await arriving.serve(cluster, client, f"stock-{stock}", stock)
    say(
        f"stock {stock}: {served.cold_share:.0%} waited, p95 {served.p95_ms:.0f} ms, "
        f"{served.idle_pods:.1f} pods idle"
    )
    return served


if __name__ == "__main__":
    side(measure)
