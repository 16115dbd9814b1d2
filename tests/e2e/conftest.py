"""One embedded cluster for all end-to-end tests that do not break it, and the command line as a person runs it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent_sandbox import Client, ClientOptions
from agent_sandbox.embedded.child import last_lines
from agent_sandbox.embedded.folder import Folder
from agent_sandbox.embedded.procs import ProcessId, wait_gone
from agent_sandbox.embedded.table import read_table
from shared import messages
from shared.bus import Bus, BusOptions, Message
from shared.cluster import monitor, open_layout
from shared.cluster.ports import LOOPBACK
from shared.identity import load_identity, roles
from shared.messages import NodeBeat, PodGone
from shared.record import Record
from shared.testing.look import Look, until
from shared.testing.pods import PodCount

PROGRAM = Path(sys.executable).parent / "agent-sandbox"
POOLS = """\
[[pool]]
name = "default"
stock = 4
[[pool]]
name = "cold"
stock = 0
checkpoint_every_s = 1
[[pool]]
name = "narrow"
stock = 1
pods_max = 1
batch_first_every = 5
idle_release_s = 1
"""

Finished = subprocess.CompletedProcess[str]
Cli = Callable[..., Finished]


def run_cli(*words: str, state: Path, stdin: str = "", timeout_s: float = 50.0) -> Finished:
    """Run the command line to its end and return what it said."""
    return subprocess.run(
        [PROGRAM, *words],
        env=environment(state),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def environment(state: Path) -> dict[str, str]:
    """Return the environment of a command on a cluster; wide enough that no line wraps."""
    return {**os.environ, "AGENT_SANDBOX_STATE": str(state), "COLUMNS": "200"}


@pytest.fixture(scope="session")
def place() -> Iterator[Path]:
    """A folder that sandboxes with a user of their own can pass through, removed at the end."""
    with tempfile.TemporaryDirectory(prefix="agent-sandbox-e2e-") as name:
        Path(name).chmod(0o711)
        yield Path(name)


@pytest.fixture(scope="session")
def embedded(place: Path) -> Iterator[Folder]:
    """A running cluster with three pools; whoever uses it leaves it running."""
    pools = place / "pools.toml"
    pools.write_text(POOLS)
    folder = Folder(place / "shared")
    try:
        up = run_cli("up", "--pools", str(pools), "--wait", "45", state=folder.path)
        assert up.returncode == 0, up.stderr + _last_words(folder)
        yield folder
    finally:
        down = run_cli("down", state=folder.path)
    assert down.returncode == 0, down.stderr


def _last_words(folder: Folder) -> str:
    """Return the end of every log, for whoever has to find out why."""
    return "".join(f"\n{path.name}: {last_lines(path, 4)}" for path in folder.logs.iterdir())


@pytest.fixture
def cli(embedded: Folder) -> Cli:
    """The command line on the shared cluster."""

    def run(*words: str, stdin: str = "") -> Finished:
        return run_cli(*words, state=embedded.path, stdin=stdin)

    return run


@pytest.fixture
def cli_on() -> Callable[..., Finished]:
    """The command line on a state folder that the test names."""
    return run_cli


@pytest.fixture
def start_cli(embedded: Folder) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a command on the shared cluster without waiting for it; what is left is killed after the test."""
    started: list[subprocess.Popen[str]] = []

    def start(*words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [PROGRAM, *words],
            env=environment(embedded.path),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate(timeout=10)


@pytest.fixture
def options(embedded: Folder) -> ClientOptions:
    """How a client reaches the shared cluster."""
    return ClientOptions(state=embedded.path)


@pytest.fixture
async def client(options: ClientOptions) -> AsyncIterator[Client]:
    """A connected client of the shared cluster."""
    async with Client(options) as connected:
        yield connected


class Rough:
    """A cluster of one test's own, whose processes it may kill and stop."""

    def __init__(self, folder: Folder, admin: Bus) -> None:
        """Use the fixture `start_rough`."""
        self.folder = folder
        self.admin = admin
        self.look = Look(admin, "default")
        self.pods = PodCount()

    async def watch(self) -> None:
        """Note every pod that nodes name, at its life or its end."""
        await self.admin.subscribe("hbn.*", self._on_node)
        await self.admin.subscribe("gone.*.*", self._on_gone)

    def _on_node(self, message: Message) -> None:
        beat = messages.decode(message.data, NodeBeat)
        self.pods.alive(beat.node, beat.pods)

    def _on_gone(self, message: Message) -> None:
        self.pods.gone(messages.decode(message.data, PodGone).pod)

    def client(self, **options: float) -> Client:
        """Return a client, not yet connected."""
        return Client(ClientOptions(state=self.folder.path, **options))  # type: ignore[arg-type]  # seconds only

    def process(self, name: str) -> ProcessId | None:
        """Return a process that the supervisor keeps, if it runs now; `supervisor` is itself one."""
        table = read_table(self.folder)
        assert table is not None
        if name == "supervisor":
            return table.supervisor
        found = next(row.process for row in table.rows if row.name == name)
        return found if found is not None and found.is_alive() else None

    def send(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a process; one that is killed is gone when this returns."""
        process = self.process(name)
        assert process is not None, f"{name} does not run"
        assert process.send(number)
        if number == signal.SIGKILL:
            assert wait_gone([process], 5.0) == []

    async def is_ready(self, name: str) -> None:
        """Wait until a service runs and says that it can work."""
        ready = self.folder.ready / name
        await until(lambda: self.process(name) is not None and ready.exists(), within_s=30)

    @asynccontextmanager
    async def without_servers(self, *names: str) -> AsyncIterator[None]:
        """Keep servers dead while inside: nobody starts them again."""
        self.send("supervisor", signal.SIGSTOP)
        try:
            for name in names:
                self.send(name, signal.SIGKILL)
            yield
        finally:
            self.send("supervisor", signal.SIGCONT)

    def _monitors(self) -> dict[str, tuple[str, int]]:
        layout = open_layout(self.folder.servers)
        return {
            files.name: (LOOPBACK, ports.monitor)
            for files, ports in zip(layout.servers(), layout.file.ports, strict=True)
        }

    def health(self, name: str) -> str:
        """Return a server's own word on whether it stores."""
        host, port = self._monitors()[name]
        health = monitor.ask(port, "/healthz?js-enabled-only=true", host=host) or {}
        return str(health.get("error") or health.get("status") or "no answer")

    def server_of(self, client: str) -> str:
        """Return the server to which a service, node or worker is connected now."""
        for name, (host, port) in self._monitors().items():
            seen = monitor.ask(port, "/connz?limit=4096", host=host) or {}
            if client in {one.get("name") for one in seen.get("connections", ())}:
                return name
        raise AssertionError(f"{client} is connected to no server")

    async def whole(self) -> None:
        """Wait until the servers form one cluster, with nothing behind."""

        async def nothing_missing() -> bool:
            return await asyncio.to_thread(monitor.what_is_missing, self._monitors()) is None

        await until(nothing_missing, within_s=60)

    async def records(self) -> list[Record]:
        """Return all records, as some replica has them."""
        return [
            messages.decode(stored.data, Record)
            for shard in range(3)
            async for stored in self.admin.scan(str(shard), f"s.{shard}.rec.>")
        ]


StartRough = Callable[[str], Awaitable[Rough]]


@pytest.fixture
async def start_rough(place: Path, tmp_path: Path) -> AsyncIterator[StartRough]:
    """Return a function that starts a cluster with these pools: `await start_rough(toml)`."""
    folder = Folder(place / tmp_path.name)
    buses: list[Bus] = []

    async def start(pools: str) -> Rough:
        (tmp_path / "pools.toml").write_text(pools)
        words = ("up", "--pools", str(tmp_path / "pools.toml"), "--wait", "60")
        up = await asyncio.to_thread(run_cli, *words, state=folder.path, timeout_s=70)
        assert up.returncode == 0, up.stderr + _last_words(folder)
        identity = load_identity(folder.servers / "identity.json")
        options = BusOptions(
            servers=folder.read().direct,
            name="judge",
            credential=identity.signer.mint("judge", roles.admin()),
        )
        buses.append(await Bus.connect(options))
        rough = Rough(folder, buses[0])
        await rough.watch()
        return rough

    yield start
    for bus in buses:
        await bus.close()
    if folder.exists():
        down = await asyncio.to_thread(run_cli, "down", state=folder.path)
        assert down.returncode == 0, down.stderr


@pytest.fixture
async def truth(embedded: Folder, client: Client) -> AsyncIterator[Bus]:
    """A connection that may do everything."""
    signer = load_identity(embedded.servers / "identity.json").signer
    bus = await Bus.connect(
        BusOptions(
            servers=embedded.read().direct,
            name="judge",
            credential=signer.mint("judge", roles.admin()),
        )
    )
    yield bus
    await bus.close()
