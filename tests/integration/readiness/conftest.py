"""One process of each service, with its probes, on servers whose network can be cut."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from agent_sandbox.embedded.probing import ProbeView, probe
from shared.cluster import Cluster
from shared.cluster.ports import LOOPBACK
from shared.identity import roles, write_credential, write_secret
from shared.testing.cut import RelayedCluster
from shared.testing.names import unique
from shared.testing.plugin import provision_now, started
from shared.testing.relay import Relay
from shared.testing.wait import until

PIPE_FILL = b"x" * 65536


class Program:
    """One service as a process."""

    def __init__(self, module: str, folder: Path, env: dict[str, str]) -> None:
        """Start it; its own log is a pipe that nobody reads unless asked."""
        self.module, self.port = module, 0
        self._url_file = folder / f"{module}.url"
        prefix = {"pool_manager": "POOL", "client_edge": "EDGE"}.get(module, module.upper())
        variables = {
            "PROBES": f"{LOOPBACK}:0",
            "PROBES_URL_FILE": str(self._url_file),
            "LOG_LEVEL": "warning",
            **env,
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", module],
            env={
                "PATH": os.environ.get("PATH", os.defpath),
                "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
                **{f"{prefix}_{name}": value for name, value in variables.items()},
            },
            stdout=subprocess.PIPE,
        )

    async def look(self) -> ProbeView:
        """Ask its probes."""
        if not self._url_file.exists():
            return ProbeView(why="it is starting")
        return await asyncio.to_thread(probe, self._url_file.read_text().strip())

    async def is_ready(self) -> bool:
        """Return whether it says that it is."""
        assert self.process.poll() is None, self.module
        return (await self.look()).ready

    def block(self) -> None:
        """Fill the pipe that it logs to: its next line will stand still."""
        assert self.process.stdout is not None
        write_end = os.open(f"/proc/{self.process.pid}/fd/1", os.O_WRONLY | os.O_NONBLOCK)
        with suppress(BlockingIOError):
            while True:
                os.write(write_end, PIPE_FILL)
        os.close(write_end)

    def end(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.wait(10)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of a short name, for the node's sockets."""
    with tempfile.TemporaryDirectory(prefix="agent-sandbox-ready-") as name:
        Path(name).chmod(0o711)
        yield Path(name)


@pytest.fixture
def cluster(folder: Path) -> Iterator[RelayedCluster]:
    """Three servers of this test alone, whose network can be cut."""
    relay = Relay()
    made = RelayedCluster(folder / "nats", relay)
    try:
        provision_now(started(made))
        yield made
    finally:
        made.kill()
        relay.close()


def settings(cluster: RelayedCluster, folder: Path) -> dict[str, dict[str, str]]:
    """Return the variables of each service, its files written."""
    identity, servers = cluster.identity, ",".join(cluster.urls)
    node = unique("node")[:32]
    edge = cluster.servers[0]
    write_credential(folder / "pm.creds", identity.signer.mint("pm", roles.pool_manager("pm")))
    write_credential(folder / "node.creds", identity.signer.mint(node, roles.local_node(node)))
    client = identity.client_signer.mint("c", roles.publisher("acme"), by_edge=True)
    write_credential(folder / "client.creds", client)
    write_secret(folder / "signer.json", msgspec.json.encode(identity.worker_signer).decode())
    write_secret(folder / "edge.json", msgspec.json.encode(identity.edge).decode())
    access = {"token_sha256s": ["0" * 64], "credential": str(folder / "client.creds")}
    write_secret(
        folder / "tenants.json", msgspec.json.encode({"tenants": {"acme": access}}).decode()
    )
    (folder / "pools.toml").write_text('[[pool]]\nname = "default"\nstock = 0\n')
    return {
        "pool_manager": {
            "NAME": "pm", "NATS_SERVERS": servers, "CREDENTIAL_FILE": str(folder / "pm.creds"),
            "SIGNER_FILE": str(folder / "signer.json"), "POOLS_FILE": str(folder / "pools.toml"),
        },
        "local_node": {
            "NAME": node, "SERVERS": servers, "CREDENTIAL_FILE": str(folder / "node.creds"),
            "DIR": str(folder / "node"), "OFFERED": "process",
        },
        "client_edge": {
            "NAME": "edge", "LISTEN_PORT": str(edge.ports.edge), "SERVER_PORT": str(edge.clients.port),
            "KEY_FILE": str(folder / "edge.json"),
        },
        "gateway": {
            "NAME": "gateway", "SERVERS": f"nats://{LOOPBACK}:{edge.ports.edge}",
            "TENANTS_FILE": str(folder / "tenants.json"), "PORT": "0",
        },
    }  # fmt: skip


@pytest.fixture
async def programs(cluster: RelayedCluster, folder: Path) -> AsyncIterator[dict[str, Program]]:
    """All services as processes, ready."""
    running = {
        module: Program(module, folder, env) for module, env in settings(cluster, folder).items()
    }
    try:
        for program in running.values():
            await until(program.is_ready, within_s=50)
        yield running
    finally:
        for program in running.values():
            program.end()


@pytest.fixture
async def edge(nats_cluster: Cluster, folder: Path) -> AsyncIterator[Program]:
    """A client edge as a process, ready."""
    write_secret(folder / "edge.json", msgspec.json.encode(nats_cluster.identity.edge).decode())
    with socket.socket() as free:
        free.bind((LOOPBACK, 0))
        port = free.getsockname()[1]
    server = nats_cluster.servers[0].ports.client
    env = {"NAME": "edge", "LISTEN_PORT": str(port), "SERVER_PORT": str(server)}
    program = Program("client_edge", folder, {**env, "KEY_FILE": str(folder / "edge.json")})
    program.port = port
    try:
        await until(program.is_ready, within_s=50)
        yield program
    finally:
        program.end()
