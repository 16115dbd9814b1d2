"""A keeper as a process, with nothing but its own rights, on real servers and a folder in place of a volume."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shared import messages, subjects, transitions
from shared.bus import Bus
from shared.cluster import Cluster
from shared.errors import ServiceError
from shared.identity import roles, write_credential
from shared.record import Origin, Record
from shared.testing.names import unique
from shared.volumes import MakeAsk, TakeAsk, VolumeAnswer

TENANT, POOL = "acme", "default"


class Live:
    """One keeper."""

    def __init__(self, cluster: Cluster, folder: Path, bus: Bus) -> None:
        """Start it; `bus` may do everything."""
        self.volume, self.bus, self.url = folder / "volume", bus, folder / "probes"
        self.volume.mkdir()
        minted = cluster.identity.signer.mint(roles.KEEPER, roles.keeper())
        write_credential(folder / "keeper.creds", minted)
        told = {
            "NAME": "k-1",
            "POOL": POOL,
            "SERVERS": ",".join(cluster.urls),
            "CREDENTIAL_FILE": str(folder / "keeper.creds"),
            "VOLUME": str(self.volume),
            "LOOK_S": "0.2",
            "PROBES": "127.0.0.1:0",
            "PROBES_URL_FILE": str(self.url),
        }
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            **{f"KEEPER_{name}": value for name, value in told.items()},
        }
        self.process = subprocess.Popen([sys.executable, "-m", "volume_keeper"], env=environment)

    async def ask(self, op: str, pod: str, body: Any) -> VolumeAnswer:
        """Ask as a worker or a pool-manager does, until somebody answers."""
        subject = subjects.volume(POOL, op, pod)
        async with asyncio.timeout(45):
            while True:
                try:
                    reply = await self.bus.request(subject, messages.encode(body), timeout_s=5)
                    return messages.decode(reply.data, VolumeAnswer)
                except ServiceError:
                    await asyncio.sleep(0.1)

    async def write(self, record: Record, seq: int = 0) -> int:
        """Store a record, as its owner would."""
        subject = subjects.record(POOL, TENANT, record.session)
        return await self.bus.compare_and_set(subject, messages.encode(record), expected_seq=seq)

    def figures(self) -> str:
        """Return what a scraper gets."""
        with urllib.request.urlopen(self.url.read_text().strip() + "/metrics", timeout=10) as said:
            text: bytes = said.read()
        return text.decode()


@pytest.fixture
async def live(admin_bus: Bus, provisioned_cluster: Cluster, tmp_path: Path) -> AsyncIterator[Live]:
    """One that runs."""
    made = Live(provisioned_cluster, tmp_path, admin_bus)
    yield made
    made.process.kill()
    made.process.wait(10)


async def until(is_so: Callable[[], Any]) -> None:
    """Wait for something that no event tells."""
    async with asyncio.timeout(30):
        while not is_so():  # noqa: ASYNC110 - likewise
            await asyncio.sleep(0.05)


async def test_a_keeper_makes_moves_and_removes_folders_and_says_how_many(live: Live) -> None:
    """By the record as the servers have it; a session's end is heard, and its folder goes. It leaves when it is asked to."""
    pod, session = unique("pod"), unique("session")
    mine = transitions.create(
        Origin(session=session, tenant=TENANT, pool=POOL, lane="interactive", accepted_ms=0),
        owner=pod,
        node="n",
        now_ms=1,
    )
    take = TakeAsk(tenant=TENANT, session=session, epoch=1)
    assert (await live.ask("make", pod, MakeAsk())).error is None
    before = await live.ask("take", pod, take)
    assert before.error is not None
    assert before.error.code == "stale_epoch"

    seq = await live.write(mine)
    assert (await live.ask("take", pod, take)).error is None
    assert (live.volume / "pods" / pod / "files").is_dir()
    wanted = f'agent_sandbox_volume_sessions{{pool="{POOL}"}} 1.0'
    await until(lambda: wanted in live.figures())
    assert f'agent_sandbox_volume_calls_hanging{{pool="{POOL}"}} 0.0' in live.figures()

    await live.write(msgspec.structs.replace(mine, state="closed", owner=None), seq)
    await until(lambda: not (live.volume / "pods" / pod / "files").exists())
    await until(lambda: not any((live.volume / "sessions").iterdir()))
    live.process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(live.process.wait, 15) == 0
