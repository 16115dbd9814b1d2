"""The server that leads is found through the servers' own word, and stays dead for as long as it is held."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest

from agent_sandbox.embedded.folder import Folder
from agent_sandbox.embedded.procs import identify
from agent_sandbox.embedded.table import Kind, Row
from chaos.nemesis.servers import QUEUES, LeaderKilled
from chaos.ports import Ground, NoVictim
from shared.bus import Bus
from shared.cluster import Cluster
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
