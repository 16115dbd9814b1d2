"""Pool-managers as real processes: killed, asked to leave, asked for their settings."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pool_manager.settings import PREFIX, PoolSettings
from shared.cluster import Cluster
from shared.settings import to_environ
from shared.testing.look import Look, until
from shared.testing.names import unique

Process = subprocess.Popen[bytes]


@pytest.fixture
def spawn(
    provisioned_cluster: Cluster, clean_bus: Any, tmp_path: Path, make_settings: Any
) -> Iterator[Callable[..., Process]]:
    """Return a function that starts a pool-manager's process."""
    started: list[Process] = []

    def begin(name: str, **changes: Any) -> Process:
        settings: PoolSettings = make_settings(name, **changes)
        environ = dict(os.environ) | to_environ(settings, PREFIX)
        process = subprocess.Popen([sys.executable, "-m", "pool_manager"], env=environ)
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.wait(10)


async def test_the_other_one_goes_on_when_one_is_killed(
    spawn: Any, node: Any, look: Look, tmp_path: Path
) -> None:
    """Refill, revocation and requests all survive a SIGKILL of one of two."""
    first = spawn("pm-1")
    spawn("pm-2")
    await until(lambda: all((tmp_path / f"pm-{n}.ready").exists() for n in (1, 2)))
    await node.warm(2)

    first.kill()
    for generation in range(2, 5):
        worker = (await node.warm(2))[0]
        session = unique("session")
        await worker.create(session)
        await worker.leave("killed")
        await look.in_state(session, "queued")
        await until(lambda count=generation: len(node.created) >= count + 1)
    await node.warm(2)

    assert len(node.created) == len(set(node.created)) == 5


async def test_a_signal_ends_it_in_order(spawn: Any, node: Any, tmp_path: Path) -> None:
    """Exit code 0, soon, and its readiness is withdrawn."""
    process = spawn("pm-1")
    ready = tmp_path / "pm-1.ready"
    await until(ready.exists)
    await node.warm(2)

    process.send_signal(signal.SIGTERM)

    assert await until(lambda: process.poll() is not None)
    assert process.returncode == 0
    assert not ready.exists()


def test_settings_are_shown_and_misspelt_ones_named() -> None:
    """What it would run with; a variable that it does not know is an error that says so."""
    command = [sys.executable, "-m", "pool_manager", "--print-settings"]
    right = {
        "POOL_NATS_SERVERS": "nats://a:1,nats://b:2",
        "POOL_CREDENTIAL_FILE": "c",
        "POOL_SIGNER_FILE": "s",
        "POOL_POOLS_FILE": "p",
        "POOL_NAME": "pm-1",
    }
    shown = subprocess.run(command, env=right, capture_output=True, text=True, check=True)
    wrong = subprocess.run(
        command, env=right | {"POOL_FENSE_S": "3"}, capture_output=True, text=True, check=False
    )

    assert "POOL_NATS_SERVERS=nats://a:1,nats://b:2" in shown.stdout
    assert "POOL_FENCE_S=4.0" in shown.stdout
    assert wrong.returncode == 2
    assert "POOL_FENSE_S" in wrong.stderr


def test_a_signal_ends_it_while_no_server_answers(make_settings: Any) -> None:
    """It does not wait for what may never come."""
    settings = msgspec.structs.replace(make_settings("pm-1"), nats_servers=("nats://127.0.0.1:9",))
    environ = dict(os.environ) | to_environ(settings, PREFIX)
    command = [sys.executable, "-m", "pool_manager"]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert b"manager.connecting" in process.stdout.readline()

        process.send_signal(signal.SIGTERM)

        said, _ = process.communicate(timeout=5.0)
        assert b"drain_late" not in said
