"""Workers outlive their credentials: real managers, a node and its workers, on servers of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from agent_sandbox import Client, ClientOptions, Output
from shared import messages, subjects
from shared.bus import Bus
from shared.cluster import Cluster
from shared.identity import Permissions, roles, write_credential, write_secret
from shared.messages import Slot
from shared.testing.look import until
from shared.testing.plugin import Connect

VALID_S = 3
"""Of the workers' credentials: renewed every two seconds or so."""
LINES = 50
"""A tenth of a second each: the task outlives two credentials at least."""

Process = subprocess.Popen[bytes]


@pytest.fixture
def folder(place: Path) -> Path:
    """Files of this test's services."""
    made = place / "renewal"
    made.mkdir()
    (made / "pools.toml").write_text(
        '[[pool]]\nname = "default"\nstock = 1\nisolation = "process"\n'
    )
    return made


@pytest.fixture
def services(private_cluster: Cluster, folder: Path) -> Iterator[dict[str, Process]]:
    """Two pool-managers and a node, by name."""
    identity = private_cluster.identity
    servers = ",".join(private_cluster.urls)

    def credential(name: str, permissions: Permissions) -> str:
        path = folder / f"{name}.creds"
        write_credential(path, identity.signer.mint(name, permissions))
        return str(path)

    signer = folder / "signer.json"
    write_secret(signer, msgspec.json.encode(identity.worker_signer).decode())
    started: dict[str, Process] = {}

    def start(name: str, module: str, settings: dict[str, str]) -> None:
        command = [sys.executable, "-m", module]
        log = (folder / f"{name}.log").open("wb")
        with log:
            started[name] = subprocess.Popen(
                command, env=os.environ | settings, stdout=log, stderr=log
            )

    for name in ("pm-1", "pm-2"):
        settings = {
            "POOL_NAME": name,
            "POOL_NATS_SERVERS": servers,
            "POOL_CREDENTIAL_FILE": credential(name, roles.pool_manager(name)),
            "POOL_SIGNER_FILE": str(signer),
            "POOL_POOLS_FILE": str(folder / "pools.toml"),
            "POOL_WORKER_VALID_S": str(VALID_S),
        }
        start(name, "pool_manager", settings)
    settings = {
        "LOCAL_NODE_NAME": "node-1",
        "LOCAL_NODE_SERVERS": servers,
        "LOCAL_NODE_CREDENTIAL_FILE": credential("node-1", roles.local_node("node-1")),
        "LOCAL_NODE_DIR": str(folder / "node-1"),
        "LOCAL_NODE_DRAIN_S": "3",
    }
    start("node-1", "local_node", settings)
    yield started
    for process in started.values():
        process.terminate()
    for process in started.values():
        process.wait(15)


@pytest.fixture
async def client(private_cluster: Cluster, folder: Path) -> AsyncIterator[Client]:
    """A client of these servers."""
    path = folder / "client.creds"
    signer = private_cluster.identity.client_signer
    write_credential(path, signer.mint("client", roles.publisher("default")))
    options = ClientOptions(servers=private_cluster.urls, credential=path, tenant="default")
    async with Client(options) as connected:
        yield connected


@pytest.fixture
async def slot(private_cluster: Cluster, connect: Connect) -> Callable[[], Awaitable[Slot | None]]:
    """Return a function that reads the record of the pool's one slot."""
    bus: Bus = await connect(cluster=private_cluster)

    async def read() -> Slot | None:
        stored = await bus.read_last(subjects.slot_stream(0), subjects.slot("default", "0"))
        return None if stored is None else messages.decode(stored.data, Slot)

    return read


async def test_a_worker_outlives_its_credentials(
    services: dict[str, Process], client: Client, slot: Callable[[], Awaitable[Slot | None]]
) -> None:
    """In mid-task and idle, with one of two pool-managers killed meanwhile: nothing is lost, nothing runs twice."""
    session = await client.create_session(pool="default")
    script = f"for i in $(seq {LINES}); do echo $i; sleep 0.1; done"
    task = await session.start(["sh", "-c", script])
    heard = b""
    async for event in task.events():
        if isinstance(event, Output):
            heard += event.data
            if heard == b"1\n":
                services["pm-1"].send_signal(signal.SIGKILL)
    first = await task.result()

    assert first.ok
    assert heard.split() == [str(number).encode() for number in range(1, LINES + 1)]
    assert first.raw.attempt == 1
    assert first.raw.interruptions == ()
    second = await session.exec(["true"])
    assert second.raw.worker == first.raw.worker
    # The idle successor, too, is older than its first credential, and still the one that was started then.
    stored = await until(slot)
    assert stored.generation == 2
    assert (await client.run(["true"], pool="default")).raw.worker == stored.pod
