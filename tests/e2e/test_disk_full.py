"""The disk of one server is full: work goes on over the others, nothing acknowledged is lost, room mends it."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent_sandbox import Client, Result
from shared.bus import leaders
from shared.errors import ServiceError
from shared.pools import PoolSpec
from shared.testing.look import until
from shared.topology import topology

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

POOLS = """\
[[pool]]
name = "default"
stock = 5
"""
DISK_MIB = 400
FULL_S = 25.0
"""How long the disk stays full under load: a server that stores nothing would be restarted meanwhile, in vain."""


def mount_small(store: Path) -> str:
    """Move a folder's content onto a small disk at its place; return why not, or nothing."""
    saved = store.with_name("js-saved")
    store.rename(saved)
    store.mkdir(mode=0o700)
    words = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(store)]
    mounted = subprocess.run(words, check=False, capture_output=True, text=True)
    if mounted.returncode != 0:
        store.rmdir()
        saved.rename(store)
        return mounted.stderr.strip()
    shutil.copytree(saved, store, dirs_exist_ok=True)
    return ""


@contextlib.asynccontextmanager
async def small_disk(cluster: Any, name: str) -> AsyncIterator[Path]:
    """Put a server's streams on a small disk of their own; the server is restarted for it."""
    store: Path = cluster.folder.servers / name / "js"
    async with cluster.without_servers(name):
        why_not = await asyncio.to_thread(mount_small, store)
    if why_not:
        pytest.skip(f"no small disk can be mounted: {why_not}")
    try:
        yield store
    finally:
        unmount = ["umount", "--lazy", str(store)]
        await asyncio.to_thread(subprocess.run, unmount, check=False, capture_output=True)


def fill(disk: Path) -> Path:
    """Use the disk up to the last byte."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        size = 1 << 20
        while size:
            try:
                file.write(b"\0" * size)
            except OSError:
                size //= 2
    return ballast


class Load:
    """One-shots one after the other in some lines, and what became of them."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.results: list[Result] = []
        self.refused: list[ServiceError] = []

    async def line(self, client: Client) -> None:
        """Run one-shots until cancelled."""
        while True:
            try:
                self.results.append(await client.run(["true"]))
            except ServiceError as exc:
                self.refused.append(exc)
            await asyncio.sleep(0.05)


async def test_work_goes_on_beside_a_full_disk_and_room_mends_the_server(start_rough: Any) -> None:
    """Definite errors at most; every task that was accepted has its result; the server stores again by itself."""
    cluster = await start_rough(POOLS)
    load = Load()
    async with small_disk(cluster, "n3") as disk, cluster.client() as client:
        await cluster.whole()
        wanted = topology((PoolSpec(name="default"),), created_ms=0)
        assert await leaders.place(cluster.admin, wanted) == []  # n3 leads the third shard
        async with asyncio.TaskGroup() as group:
            lines = [group.create_task(load.line(client)) for _ in range(3)]
            await until(lambda: len(load.results) >= 6, within_s=30)
            ballast = await asyncio.to_thread(fill, disk)
            before, was = len(load.results), cluster.process("n3")
            await asyncio.sleep(FULL_S)  # the load goes on; a restart meanwhile would be in vain
            during = len(load.results) - before
            health, process = cluster.health("n3"), cluster.process("n3")
            await asyncio.to_thread(ballast.unlink)
            await cluster.whole()
            after = len(load.results)
            await until(lambda: len(load.results) >= after + 10, within_s=30)
            for line in lines:
                line.cancel()
        stored = {r.task_id: await client.read_result(r.task_id) for r in load.results}

    assert "not enabled" in health
    assert process == was, "restarted while its disk was full"
    assert during >= 10
    assert [exc for exc in load.refused if not exc.definite] == []
    assert [result.raw.status for result in load.results if not result.ok] == []
    assert [task for task, result in stored.items() if result is None or not result.ok] == []
