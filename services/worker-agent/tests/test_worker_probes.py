"""A worker's own probes: there where they are wished, and nowhere else a byte of them."""

from __future__ import annotations

import asyncio
import http.client
import socket
import subprocess
import sys

from shared.cluster.ports import LOOPBACK
from shared.testing.names import unique
from shared.testing.plugin import Connect
from shared.testing.wait import until
from worker_agent.adapters.probes import answering

HEAVY = ("prometheus_client", "shared.metrics", "shared.probes", "http.server")


def get(port: int, path: str) -> tuple[int, str]:
    """Ask for a path."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=5)
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, body


async def test_a_worker_tells_whether_it_reaches_the_servers(connect_worker: Connect) -> None:
    """Ready while a server answers, not without a connection; live all the time."""
    bus = await connect_worker("default", unique("default")[:32])
    with socket.socket() as free:
        free.bind((LOOPBACK, 0))
        port = free.getsockname()[1]
    async with answering(f"{LOOPBACK}:{port}", bus):
        well = await asyncio.to_thread(get, port, "/readyz")
        metrics = (await asyncio.to_thread(get, port, "/metrics"))[1]
        await bus.close()

        async def is_ill() -> bool:
            return (await asyncio.to_thread(get, port, "/readyz"))[0] != 200

        await until(is_ill)
        ill = await asyncio.to_thread(get, port, "/readyz")
        live = await asyncio.to_thread(get, port, "/livez")

    assert well == (200, "ready\n")
    assert "agent_sandbox_bus_connected 1.0" in metrics
    assert ill == (503, "nats: no connection\n")
    assert live == (200, "live\n")


def test_an_idle_worker_carries_nothing_for_probes() -> None:
    """Each of hundreds would carry it: it is loaded where an address is set."""
    code = (
        "import sys, worker_agent.__main__, worker_agent.app, local_node.adapters.zygote.worker; "
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    )

    assert done.stdout == "[]\n"
