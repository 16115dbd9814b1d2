"""A checkpointer, started as a program with nothing but its own rights, on real NATS servers."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared import subjects
from shared.bus import Bus, Message
from shared.cluster import Cluster
from shared.identity import roles, write_credential
from shared.messages import decode
from shared.testing.names import unique
from shared.workspace import CheckpointerBeat


@pytest.fixture
def node() -> str:
    """A node of this test alone."""
    return unique("node")[:32]


@pytest.fixture
def checkpointer(
    nats_cluster: Cluster, node: str, tmp_path: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """The checkpointer's process; it may be ended by the test."""
    minted = nats_cluster.identity.signer.mint(f"ckpt-{node}", roles.checkpointer(node))
    write_credential(tmp_path / "checkpointer.creds", minted)
    process = subprocess.Popen(
        [sys.executable, "-m", "checkpointer"],
        env={
            "PATH": os.environ.get("PATH", os.defpath),
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "CHECKPOINTER_NODE": node,
            "CHECKPOINTER_SERVERS": ",".join(nats_cluster.urls),
            "CHECKPOINTER_CREDENTIAL_FILE": str(tmp_path / "checkpointer.creds"),
            "CHECKPOINTER_PODS_DIR": str(tmp_path / "pods"),
        },
    )
    yield process
    process.kill()
    process.wait(10)


async def test_a_checkpointer_beats_and_leaves_when_it_is_asked_to(
    admin_bus: Bus, node: str, checkpointer: subprocess.Popen[bytes]
) -> None:
    """Its heartbeats are heard on its own subject; SIGTERM ends it with code 0."""
    beats: asyncio.Queue[CheckpointerBeat] = asyncio.Queue()

    def on_beat(message: Message) -> None:
        beats.put_nowait(decode(message.data, CheckpointerBeat))

    await admin_bus.subscribe(subjects.checkpointer_heartbeat(node), on_beat)
    async with asyncio.timeout(20):
        first, second = await beats.get(), await beats.get()
    assert first.node == second.node == node
    assert first.started_ms == second.started_ms > 0

    checkpointer.send_signal(signal.SIGTERM)

    assert await asyncio.to_thread(checkpointer.wait, 10) == 0
