"""One embedded cluster for all end-to-end tests that do not break it, and the command line as a person runs it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from agent_sandbox import Client, ClientOptions
from agent_sandbox.embedded.child import last_lines
from agent_sandbox.embedded.folder import Folder

PROGRAM = Path(sys.executable).parent / "agent-sandbox"
POOLS = """\
[[pool]]
name = "default"
stock = 4
[[pool]]
name = "cold"
stock = 0
[[pool]]
name = "narrow"
stock = 1
pods_max = 1
batch_first_every = 5
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
