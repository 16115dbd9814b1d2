"""Pool-managers in this process, on the test cluster, beside peers that speak the real messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pool_manager import app
from pool_manager.settings import PoolSettings
from shared.bus import Bus
from shared.cluster import Cluster
from shared.identity import Credential, roles, write_credential, write_secret
from shared.ids import SHARDS
from shared.service import Stop
from shared.testing.look import Look, until
from shared.testing.peers import NodePeer

TENANT = "acme"
STREAMS = [f"{kind}{shard}" for kind in ("", "I", "Q", "P") for shard in range(SHARDS)]


@pytest.fixture
async def clean_bus(admin_bus: Bus) -> Bus:
    """A connection that may do everything, to streams that hold nothing."""
    for stream in STREAMS:
        await admin_bus.js_api(f"STREAM.PURGE.{stream}", {})
    return admin_bus


@pytest.fixture
def look(clean_bus: Bus) -> Look:
    """What the streams hold."""
    return Look(clean_bus, TENANT)


@pytest.fixture
async def node(
    clean_bus: Bus, connect: Any, provisioned_cluster: Cluster
) -> AsyncIterator[NodePeer]:
    """A node."""
    bus = await connect(roles.local_node("node-a"), name="n-node-a")
    peer = NodePeer("node-a", bus, TENANT)
    await peer.start()
    yield peer
    await peer.stop()


Start = Callable[..., Awaitable[Stop]]


def write_settings(folder: Path, cluster: Cluster, name: str, **changes: Any) -> PoolSettings:
    """Write the files of one pool-manager and return its settings."""
    pools = changes.pop("pools", [{"name": "default", "stock": 2}])
    text = "".join(
        "[[pool]]\n" + "".join(f"{k} = {msgspec.json.encode(v).decode()}\n" for k, v in p.items())
        for p in pools
    )
    (folder / "pools.toml").write_text(text)
    identity = cluster.identity
    write_secret(folder / "signer.json", msgspec.json.encode(identity.worker_signer).decode())

    def credential(user: str, made: Credential) -> str:
        write_credential(folder / f"{user}.creds", made)
        return str(folder / f"{user}.creds")

    watcher = f"{name}-system"
    return PoolSettings(
        nats_servers=cluster.urls,
        name=name,
        credential_file=credential(name, identity.signer.mint(name, roles.pool_manager(name))),
        system_credential_file=credential(
            watcher, identity.system_signer.mint(watcher, roles.system_watcher(watcher))
        ),
        signer_file=str(folder / "signer.json"),
        pools_file=str(folder / "pools.toml"),
        ready_file=str(folder / f"{name}.ready"),
        log_level="debug",
        **changes,
    )


@pytest.fixture
def make_settings(provisioned_cluster: Cluster, tmp_path: Path) -> Callable[..., PoolSettings]:
    """Return a function that writes a pool-manager's files: `make_settings("pm-1", pools=[…], fence_s=2)`."""
    return lambda name, **changes: write_settings(tmp_path, provisioned_cluster, name, **changes)


@pytest.fixture
async def start(make_settings: Callable[..., PoolSettings], clean_bus: Bus) -> AsyncIterator[Start]:
    """Return a function that starts a pool-manager in this process: `await start("pm-1", pools=[…])`."""
    running: list[tuple[Stop, asyncio.Task[None]]] = []

    async def begin(name: str, **changes: Any) -> Stop:
        settings = make_settings(name, **changes)
        stop = Stop()
        task = asyncio.create_task(app.run(settings, stop))
        running.append((stop, task))
        assert settings.ready_file
        ready = Path(settings.ready_file)
        await until(lambda: ready.exists() or task.done())
        assert not task.done(), task.exception()
        return stop

    yield begin
    for stop, _ in running:
        stop.set("test over")
    for _, task in running:
        await asyncio.wait_for(task, 10)
