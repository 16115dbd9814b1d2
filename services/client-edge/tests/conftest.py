"""Edges before real servers, in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from client_edge import app
from client_edge.settings import EdgeSettings
from shared.bus import Bus, BusOptions
from shared.cluster import Cluster
from shared.identity import roles, write_secret
from shared.service import Stop
from shared.testing.names import unique
from shared.testing.wait import until


class Edges:
    """One edge for each server of a cluster, in this process."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        """Name them."""
        self.cluster = cluster
        self.key_file = folder / "edge.json"
        self.stops: list[Stop] = []
        self.tasks: list[asyncio.Task[None]] = []
        write_secret(self.key_file, msgspec.json.encode(cluster.identity.edge).decode())

    async def start(self, **changes: int) -> None:
        """Start all, with these settings changed."""
        for number, server in enumerate(self.cluster.servers):
            ready = self.key_file.with_name(f"ready-{number}")
            settings = EdgeSettings(
                name=f"edge-{number}",
                listen_port=server.ports.edge,
                server_port=server.ports.client,
                key_file=str(self.key_file),
                ready_file=str(ready),
                **changes,
            )
            self.stops.append(Stop())
            self.tasks.append(asyncio.create_task(app.run(settings, self.stops[-1])))
            await until(ready.exists)

    async def stop(self, number: int) -> None:
        """End one."""
        self.stops[number].set("test")
        await self.tasks[number]


@pytest.fixture
async def edges(provisioned_cluster: Cluster, tmp_path: Path) -> AsyncIterator[Edges]:
    """Edges of the run's servers."""
    made = Edges(provisioned_cluster, tmp_path)
    await made.start()
    yield made
    for number in range(len(made.stops)):
        await made.stop(number)


class Crowd:
    """Clients of two tenants before edges that give each tenant little."""

    def __init__(self, edges: Edges) -> None:
        """Name the tenants."""
        self.edges = edges
        self.tenants = unique("t"), unique("t")

    async def client(self, tenant: int = 0, *, deadline_s: float = 5.0) -> Bus:
        """Connect through the first edge."""
        name = self.tenants[tenant]
        minted = self.edges.cluster.identity.client_signer.mint(
            "client", roles.publisher(name), by_edge=True
        )
        options = BusOptions(
            servers=self.edges.cluster.edge_urls[:1],
            name="c",
            credential=minted,
            ping_interval_s=60,  # none in the middle of a message that is sent by hand
        )
        return await Bus.connect(options, deadline_s=deadline_s)


@pytest.fixture
async def crowd(provisioned_cluster: Cluster, tmp_path: Path) -> AsyncIterator[Crowd]:
    """Edges at which a tenant has two connections and 100,000 bytes of half-sent messages."""
    edges = Edges(provisioned_cluster, tmp_path)
    await edges.start(tenant_connections_max=2, tenant_half_sent_bytes_max=100_000)
    yield Crowd(edges)
    for number in range(len(edges.stops)):
        await edges.stop(number)
