"""The bus on real servers: three processes, and in the slow run on three containers what loses its network.

A process is killed or stopped in a container as outside; with `BUS_IN_CONTAINERS=all` the slow run repeats all tests there.

Servers of a test whose `fault` is `cut` talk through a relay; so do those of a test marked `cuttable`.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.integration.bus.moving import BUFFER_BYTES, Pair, mint

from shared.bus import Bus, BusOptions
from shared.cluster import Cluster
from shared.testing.cut import RelayedCluster
from shared.testing.plugin import Connect, provision_now, start_cluster, started
from shared.testing.relay import Relay
from shared.testing.tap import Tap, tapped


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what a container would only repeat."""
    if os.environ.get("BUS_IN_CONTAINERS") == "all":
        return
    repeated = [item for item in items if _repeats(item)]
    config.hook.pytest_deselected(items=repeated)
    items[:] = [item for item in items if item not in repeated]


def _repeats(item: pytest.Item) -> bool:
    """Whether a test does in a container what it does with processes."""
    callspec = getattr(item, "callspec", None)
    what = callspec.params if callspec else {}
    return what.get("backend") == "containers" and what.get("fault") != "cut"


@pytest.fixture(
    scope="session",
    autouse=True,
    params=["processes", pytest.param("containers", marks=pytest.mark.slow)],
)
def backend(request: pytest.FixtureRequest) -> str:
    """What the servers run in."""
    kind: str = request.param
    return kind


@pytest.fixture(scope="session")
def server_image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An image of the server program, made here; removed at the end."""
    from shared.testing import containers  # noqa: PLC0415 - loads the Docker library, for the slow run alone

    reason = containers.why_not()
    if reason is not None:
        pytest.skip(reason)
    containers.sweep()
    with containers.server_image(tmp_path_factory.mktemp("image") / "context") as tag:
        yield tag


@contextmanager
def in_containers(folder: Path, image: str) -> Iterator[Cluster]:
    """Yield a running cluster of containers; nothing of it stays."""
    from shared.testing import containers  # noqa: PLC0415 - see above

    cluster = containers.ContainerCluster(folder, image)
    try:
        yield started(cluster)
    finally:
        cluster.remove()


@contextmanager
def in_processes(folder: Path) -> Iterator[Cluster]:
    """Yield a running cluster of processes."""
    cluster = start_cluster(folder)
    try:
        yield cluster
    finally:
        cluster.kill()


@contextmanager
def behind_a_relay(folder: Path) -> Iterator[Cluster]:
    """Yield a running cluster of processes whose network can be cut."""
    relay = Relay()
    cluster = RelayedCluster(folder, relay)
    try:
        yield started(cluster)
    finally:
        cluster.kill()
        relay.close()


@pytest.fixture(scope="session")
def nats_cluster(
    backend: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Three servers for the whole run."""
    folder = tmp_path_factory.mktemp("servers") / "nats"
    if backend == "containers":
        made = in_containers(folder, request.getfixturevalue("server_image"))
    else:
        made = in_processes(folder)
    with made as cluster:
        yield cluster


@pytest.fixture(scope="session")
def provisioned_cluster(nats_cluster: Cluster) -> Cluster:
    """The same, with all streams and consumers."""
    provision_now(nats_cluster)
    return nats_cluster


@pytest.fixture
def private_cluster(
    backend: str, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Cluster]:
    """Three provisioned servers of this test alone: it may do to them what it likes."""
    callspec = getattr(request.node, "callspec", None)
    fault = callspec.params.get("fault") if callspec else None
    if backend == "containers":
        made = in_containers(tmp_path / "nats", request.getfixturevalue("server_image"))
    elif fault == "cut" or request.node.get_closest_marker("cuttable"):
        made = behind_a_relay(tmp_path / "nats")
    else:
        made = in_processes(tmp_path / "nats")
    with made as cluster:
        provision_now(cluster)
        yield cluster


@pytest.fixture
async def tap(provisioned_cluster: Cluster) -> AsyncIterator[Tap]:
    """A way to one server."""
    async with tapped(provisioned_cluster.urls[:1]) as made:
        yield made


@pytest.fixture
async def pair(tap: Tap, provisioned_cluster: Cluster, connect: Connect) -> AsyncIterator[Pair]:
    """The bus under test behind the tap, and another at the same server. Pings come from renewals only."""
    other = await connect(name="other", servers=(provisioned_cluster.servers[0].url,))
    bus = await Bus.connect(
        BusOptions(
            servers=(tap.url,),
            name="moves",
            credential=mint(provisioned_cluster),
            ping_interval_s=60,
            pending_bytes_max=BUFFER_BYTES,
        )
    )
    made = Pair(bus, other, tap)
    await made.begin()
    yield made
    await bus.close()
