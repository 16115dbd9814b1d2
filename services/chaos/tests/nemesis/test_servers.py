"""The server that leads is found through the servers' own word, and stays dead for as long as it is held."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from random import Random

import pytest

from agent_sandbox.embedded.folder import Folder
from agent_sandbox.embedded.procs import ProcessId, identify
from agent_sandbox.embedded.table import Kind, Row
from chaos.nemesis import servers
from chaos.nemesis.servers import QUEUES, LeaderKilled, ServerWiped
from chaos.ports import Ground, NoVictim
from shared.bus import Bus
from shared.cluster import Cluster
from shared.errors import Unavailable
from shared.testing.look import until
from shared.testing.plugin import admin_options


class Servers:
    """A site of servers alone; whoever holds it keeps them dead."""

    def __init__(self, cluster: Cluster, admin: Bus) -> None:
        """Look at a running cluster."""
        self.folder = Folder(cluster.layout.root)
        self.folder.servers = cluster.layout.root
        self.admin, self.ground = admin, Ground()
        self._cluster, self._held = cluster, False

    def now(self) -> float:
        """See `Site`."""
        return asyncio.get_running_loop().time()

    def rows(self, kind: Kind) -> list[Row]:
        """See `Site`."""
        found = []
        for server in self._cluster.servers:
            process = identify(server.popen.pid) if server.popen and server.running else None
            found.append(Row(name=server.name, kind=kind, process=process))
        return found

    async def leaders(self, *streams: str) -> dict[str, str]:
        """See `Site`."""
        infos = [await self.admin.js_api(f"STREAM.INFO.{stream}", {}) for stream in streams]
        return dict(zip(streams, [info["cluster"]["leader"] for info in infos], strict=True))

    def hold(self) -> None:
        """See `Site`."""
        self._held = True

    def release(self) -> None:
        """See `Site`."""
        self._held = False
        for server in self._cluster.servers:
            if not server.running:
                server.start(die_with_parent=True)


@pytest.fixture
async def site(private_cluster: Cluster) -> AsyncIterator[Servers]:
    """Three servers with all streams."""
    admin = await Bus.connect(admin_options(private_cluster))
    yield Servers(private_cluster, admin)
    await admin.close()


async def test_the_leader_of_most_queues_dies_and_comes_back_when_it_is_healed(
    site: Servers, tmp_path: Path
) -> None:
    """By the servers' own word before, and by another leader's after."""
    before = await site.leaders(*QUEUES)
    fault = LeaderKilled(site, Random(5))

    done = await fault.inject()

    (victim,) = done.targets
    led = list(before.values())
    assert led.count(victim) == max(map(led.count, led))
    await until(lambda: [row.name for row in site.rows("server") if not row.process] == [victim])
    with pytest.raises(NoVictim):
        await _any_server(site)
    await fault.heal()
    await fault.heal()
    await until(lambda: all(row.process for row in site.rows("server")))
    assert await fault.missed() == ""


async def _any_server(site: Servers) -> None:
    """Draw a server to lose its data: none may, while another is dead."""
    LeaderKilled(site, Random(1)).any_server()


class TableGone:
    """A site of one server, whose supervisor's table is gone once the server is dead."""

    def __init__(self, root: Path, process: ProcessId) -> None:
        """Give the server a store."""
        self.folder = Folder(root)
        self.folder.servers = root
        (root / "nats-1" / "js").mkdir(parents=True)
        self.admin, self.ground = None, Ground()
        self._process = process

    def now(self) -> float:
        """See `Site`."""
        return asyncio.get_running_loop().time()

    def rows(self, kind: Kind) -> list[Row]:
        """See `Site`."""
        if not self._process.is_alive():
            raise Unavailable("no table")
        return [Row(name="nats-1", kind=kind, process=self._process)]

    def hold(self) -> None:
        """See `Site`."""

    def release(self) -> None:
        """See `Site`."""


@pytest.fixture
def sleeper() -> Iterator[ProcessId]:
    """A process that does nothing."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as popen:
        process = identify(popen.pid)
        assert process is not None
        yield process
        popen.kill()


async def test_a_server_of_which_nobody_tells_any_more_has_not_caught_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sleeper: ProcessId
) -> None:
    """That is what the fault found, not the end of the run."""
    monkeypatch.setattr(servers, "CATCH_UP_S", 0.3)
    monkeypatch.setattr(servers, "POLL_S", 0.1)
    fault = ServerWiped(TableGone(tmp_path, sleeper), Random(1))

    await fault.inject()
    await fault.heal()

    assert "had not caught up" in await fault.failed()
    assert await fault.missed() == ""
