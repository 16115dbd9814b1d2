"""What services say of themselves while NATS is dead, hangs or is cut off, and while they hang themselves."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from agent_sandbox.embedded.probing import ProbeView, probe
from shared.cluster import Cluster
from shared.cluster.ports import LOOPBACK
from shared.identity import roles, write_credential, write_secret
from shared.testing.cut import RelayedCluster, RelayedServer
from shared.testing.names import unique
from shared.testing.plugin import provision_now, started
from shared.testing.relay import Relay
from shared.testing.wait import until

TOLD_S = 4.0
"""As docs/metrics.md promises."""
LOOK_S = 0.05
SERVICES = ("pool_manager", "local_node", "client_edge", "gateway")
NATS_LOST = ("pool_manager", "local_node")
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
            await until(program.is_ready, within_s=30)
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
        await until(program.is_ready, within_s=20)
        yield program
    finally:
        program.end()


async def until_told(programs: dict[str, Program]) -> dict[str, tuple[float, str]]:
    """Wait until all say that they are not ready; return after how long each did, and why. None may call itself dead."""
    began = time.monotonic()
    told: dict[str, tuple[float, str]] = {}
    async with asyncio.timeout(3 * TOLD_S):
        while len(told) < len(programs):
            for name in programs.keys() - told.keys():
                view = await programs[name].look()
                assert view.live, (name, view)
                if not view.ready:
                    told[name] = (time.monotonic() - began, view.why)
            await asyncio.sleep(LOOK_S)
    return told


async def show_fault(
    programs: dict[str, Program], strike: Callable[[], None], heal: Callable[[], None]
) -> None:
    """Strike; all are told in time and stay so, live. Heal; all are ready again, the same processes."""
    await asyncio.to_thread(strike)
    told = await until_told(programs)
    for _ in range(10):
        views = {name: await program.look() for name, program in programs.items()}
        assert not [name for name, view in views.items() if view.ready or not view.live], views
        await asyncio.sleep(LOOK_S)
    await asyncio.to_thread(heal)
    for program in programs.values():
        await until(program.is_ready, within_s=40)

    assert {name: took_s for name, (took_s, _) in told.items() if took_s > TOLD_S + 0.5} == {}
    assert all("nats: no" in told[name][1] or "shards: " in told[name][1] for name in NATS_LOST)
    assert all("server: " in told[name][1] for name in told.keys() - set(NATS_LOST))


@pytest.mark.timeout(120)
async def test_no_service_is_ready_while_no_server_is_reached(
    cluster: RelayedCluster, programs: dict[str, Program]
) -> None:
    """The network is cut: no connection ends, nothing is refused, nothing arrives."""

    def cut() -> None:
        for server in cluster.servers:
            server.cut_clients()

    def heal() -> None:
        for server in cluster.servers:
            server.heal()

    await show_fault(programs, cut, heal)


def start(server: RelayedServer) -> None:
    """Start a server again; it dies with this process."""
    server.start(die_with_parent=True)


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_no_service_is_ready_while_all_servers_hang_or_are_dead(
    cluster: RelayedCluster, programs: dict[str, Program]
) -> None:
    """SIGSTOP, as a hang, then SIGKILL: each is told in time, and that it is over as well."""

    def each(act: Callable[[RelayedServer], None]) -> Callable[[], None]:
        def do() -> None:
            for server in cluster.servers:
                act(server)

        return do

    await show_fault(programs, each(RelayedServer.pause), each(RelayedServer.resume))
    await show_fault(programs, each(RelayedServer.kill), each(start))


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_pool_manager_is_not_ready_while_nothing_can_be_written(
    cluster: RelayedCluster, programs: dict[str, Program]
) -> None:
    """One server of three answers on the connection, and no shard has a leader: that is no readiness."""
    manager = {"pool_manager": programs["pool_manager"]}

    async def is_told() -> bool:
        view = await manager["pool_manager"].look()
        assert view.live
        return not view.ready and "no state shard has a leader" in view.why

    for server in cluster.servers[1:]:
        server.kill()
    await until(is_told, within_s=30)  # a leader without a majority notices after some 10 s
    for server in cluster.servers[1:]:
        start(server)
    await until(manager["pool_manager"].is_ready, within_s=40)


@pytest.mark.slow
async def test_a_service_whose_event_loop_stands_still_is_not_live(edge: Program) -> None:
    """Its log's reader has stopped, so its next line takes for ever: only a restart helps, and it says so itself."""
    edge.block()
    _, writer = await asyncio.open_connection(LOOPBACK, edge.port)
    writer.write(b"nonsense\r\n")  # is worth a line

    async def is_unready_and_live() -> bool:
        view = await edge.look()
        return view.live and not view.ready and "event loop: stands still" in view.why

    async def is_dead() -> bool:
        return (await edge.look()).why.startswith("the event loop stands still")

    await until(is_unready_and_live, within_s=6)
    await until(is_dead, within_s=15)
    writer.close()


async def test_a_service_that_is_stopped_says_nothing_and_is_as_before_when_it_goes_on(
    edge: Program,
) -> None:
    """SIGSTOP: no probe is answered, so nobody takes it for ready. Afterwards it is at no moment called dead."""
    edge.process.send_signal(signal.SIGSTOP)
    stopped = await edge.look()
    await asyncio.sleep(1.0)  # longer than a look of its own may be late
    edge.process.send_signal(signal.SIGCONT)
    until_s = time.monotonic() + 1.0
    after = [await edge.look()]
    while time.monotonic() < until_s:
        after.append(await edge.look())
        await asyncio.sleep(LOOK_S)
    await until(edge.is_ready)

    assert not stopped.answers
    assert not stopped.ready
    assert [view for view in after if not view.live or "stands still" in view.why] == []
