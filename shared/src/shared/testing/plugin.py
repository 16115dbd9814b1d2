"""Pytest fixtures on real servers. The root conftest names this module in `pytest_plugins`.

nats_cluster         three servers with nothing in them; one for the whole run
provisioned_cluster  the same, with all that the topology declares for POOLS
private_cluster      three servers of this test alone: it may kill and pause them
connect              makes connections to the provisioned cluster, closed at the end of the test
connect_client       the same for a tenant's client
connect_worker       the same for a worker of a pool
admin_bus            a connection that may do everything
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest
import structlog

from shared import logs
from shared.bus import Bus, BusOptions
from shared.bus.provision import provision
from shared.cluster import Cluster, ServerProcess, open_cluster
from shared.identity import Permissions, Signer, roles
from shared.pools import PoolSpec
from shared.topology import Topology, topology

POOLS = (PoolSpec(name="default"), PoolSpec(name="other"))
"""Pools that every provisioned test cluster has."""

AnyCluster = TypeVar("AnyCluster", bound=Cluster)
Connect = Callable[..., Awaitable[Bus]]


def start_cluster(folder: Path) -> Cluster:
    """Return a running cluster with its state in `folder`; it dies with this process."""
    return started(open_cluster(folder))


def started(cluster: AnyCluster) -> AnyCluster:
    """Start a cluster, and return it when it is ready; it dies with this process."""
    cluster.start(die_with_parent=True)
    try:
        cluster.wait_ready(deadline_s=20)
    except BaseException:
        cluster.kill()
        raise
    return cluster


def declared() -> Topology:
    """Return what the test clusters hold."""
    return topology(POOLS, created_ms=int(time.time() * 1000))


def admin_options(cluster: Cluster, name: str = "admin") -> BusOptions:
    """Return how to connect with all rights."""
    return BusOptions(
        servers=cluster.urls,
        name=name,
        credential=cluster.identity.signer.mint(name, roles.admin()),
    )


def server_of(bus: Bus, cluster: Cluster) -> ServerProcess:
    """Return the server that a connection goes to."""
    return next(server for server in cluster.servers if server.url == f"nats://{bus.server}")


async def provision_cluster(cluster: Cluster, wanted: Topology | None = None) -> None:
    """Create all that the topology declares, each shard's leaders on a server of its own."""
    bus = await Bus.connect(admin_options(cluster, "provisioner"))
    try:
        drift = await provision(bus, wanted or declared(), place_leaders=True)
        assert drift == []
    finally:
        await bus.close()


def provision_now(cluster: Cluster) -> None:
    """Provision from plain code, also where a loop runs in this thread: an async fixture may have asked for it."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, provision_cluster(cluster)).result()


@pytest.fixture(autouse=True)
def logs_stay(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A test that calls a program's `main` sets up logging for itself alone: later tests look for lines, too."""
    before = structlog.get_config()
    monkeypatch.setattr(logs, "_ways", list(logs._ways))
    yield
    structlog.configure(**before)


@pytest.fixture(scope="session")
def nats_cluster() -> Iterator[Cluster]:
    """Three servers with nothing in them."""
    with tempfile.TemporaryDirectory(prefix="agent-sandbox-nats-") as folder:
        cluster = start_cluster(Path(folder))
        yield cluster
        cluster.kill()


@pytest.fixture(scope="session")
def provisioned_cluster(nats_cluster: Cluster) -> Cluster:
    """The run's servers with all streams and consumers."""
    provision_now(nats_cluster)
    return nats_cluster


@pytest.fixture
def private_cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Three provisioned servers of this test alone."""
    cluster = start_cluster(tmp_path / "nats")
    try:
        provision_now(cluster)
        yield cluster
    finally:
        cluster.kill()


@pytest.fixture
async def connect(request: pytest.FixtureRequest) -> AsyncIterator[Connect]:
    """Return a function that connects: `await connect(permissions, name=…, cluster=…, signer=…, **options)`.

    Without permissions it may do everything; without a cluster it is the run's provisioned one; without a signer it
    belongs to the account of services and workers (`cluster.identity.client_signer` makes clients).
    """
    opened: list[Bus] = []

    async def make(
        permissions: Permissions | None = None,
        *,
        name: str = "test",
        cluster: Cluster | None = None,
        signer: Signer | None = None,
        **options: Any,
    ) -> Bus:
        place = cluster or request.getfixturevalue("provisioned_cluster")
        credential = (signer or place.identity.signer).mint(name, permissions or roles.admin())
        settings = {"servers": place.urls, "name": name, "credential": credential, **options}
        bus = await Bus.connect(BusOptions(**settings))
        opened.append(bus)
        return bus

    yield make
    for bus in opened:
        await bus.close()


@pytest.fixture
async def connect_client(connect: Connect, provisioned_cluster: Cluster) -> Connect:
    """Return a function that connects a tenant's client: `await connect_client(tenant, **options)`."""

    async def make(tenant: str, *, cluster: Cluster | None = None, **options: Any) -> Bus:
        place = cluster or provisioned_cluster
        return await connect(
            roles.publisher(tenant),
            name=f"client-{tenant}",
            cluster=place,
            signer=place.identity.client_signer,
            **options,
        )

    return make


@pytest.fixture
async def connect_worker(connect: Connect, provisioned_cluster: Cluster) -> Connect:
    """Return a function that connects as a worker, minted as pool-managers do: `await connect_worker(pool, name)`."""

    async def make(pool: str, name: str, *, valid_s: float = 3600.0) -> Bus:
        signer = provisioned_cluster.identity.worker_signer
        return await connect(name=name, credential=signer.mint(pool, name, valid_s=valid_s))

    return make


@pytest.fixture
async def admin_bus(provisioned_cluster: Cluster) -> AsyncIterator[Bus]:
    """A connection to the provisioned cluster that may do everything."""
    bus = await Bus.connect(admin_options(provisioned_cluster))
    yield bus
    await bus.close()
