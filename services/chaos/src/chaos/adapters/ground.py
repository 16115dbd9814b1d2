"""What some faults need before the cluster comes up: a network that can be cut, small disks, clocks, failpoints.

`laid` puts it under a state folder that was made and never was up; nodes and services are pointed at it by variables in
`cluster.json` (`environ`). A cluster without it is as people have it: nothing in its way.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import msgspec

from agent_sandbox.embedded.folder import Folder
from agent_sandbox.embedded.programs import manager_names
from chaos.adapters.disks import NoDisk, PowerDisk, mount_small, unmount
from chaos.ports import Ground, Need
from shared.cluster import open_layout
from shared.cluster.ports import GATEWAYS, LOOPBACK, ServerPorts
from shared.errors import Unavailable
from shared.failpoints import PlanFolder
from shared.testing.relay import Link, Relay

SERVER_DISK_MIB, NODE_DISK_MIB, STORE_DISK_MIB, POWER_DISK_MIB = 400, 400, 192, 4096
CLOCK = Path(__file__).with_name("off_clock")
"""Folder that puts the clock of a Python process off which has it on its path."""


class NoGround(Unavailable):
    """This machine does not have what a fault needs; says what."""

    code = "no_ground"


@asynccontextmanager
async def laid(
    folder: Folder, needs: frozenset[Need], nodes: Sequence[str]
) -> AsyncIterator[Ground]:
    """Lay the ground under a cluster that never was up; take it away when the cluster is down.

    Args:
        folder: of the cluster; it is made where it is missing.
        needs: what is wanted.
        nodes: names of the nodes that it will have.

    Raises:
        NoGround: this machine can't.
        ServiceError: the folder can't be used.
    """
    layer = _Layer(folder, nodes)
    try:
        ground = await asyncio.to_thread(layer.lay, needs)
        yield ground
    finally:
        await asyncio.shield(asyncio.to_thread(layer.clear))


class _Layer:
    """Lays, and takes away."""

    def __init__(self, folder: Folder, nodes: Sequence[str]) -> None:
        self._folder, self._nodes = folder, tuple(nodes)
        self._closing = ExitStack()
        self._environ: dict[str, dict[str, str]] = {}
        self._work = Path()

    def lay(self, needs: frozenset[Need]) -> Ground:
        """Lay all that is needed; on an error nothing stays, once `clear` was called."""
        ground = Ground(laid=needs)
        if not needs:
            return ground
        cluster = self._folder.create()
        self._work = Path(tempfile.mkdtemp(prefix="agent-sandbox-ground-"))
        self._work.chmod(0o711)
        self._closing.callback(shutil.rmtree, self._work, ignore_errors=True)
        ports = open_layout(self._folder.servers, base_port=cluster.base_port).file.ports
        steps: dict[Need, Callable[[Ground], None]] = {
            "relays": lambda ground: self._relays(ground, ports),
            "clocks": self._clocks,
            "failpoints": self._failpoints,
            "server_disk": self._server_disk,
            "node_disk": self._node_disk,
            "store_folder": self._store_folder,
            "store_disk": self._store_disk,
            "power": self._power,
        }
        try:
            for need, step in steps.items():
                if need in needs:
                    step(ground)
        except NoDisk as exc:
            raise NoGround(f"no small disk can be had: {exc}") from exc
        store = cluster.store if ground.store is None else f"local:{ground.store}"
        self._folder.write(msgspec.structs.replace(cluster, environ=self._environ, store=store))
        return ground

    def clear(self) -> None:
        """Take all away, the last first."""
        self._closing.close()

    # --- one thing each ----------------------------------------------------------------------------------------------

    def _give(self, service: str, **variables: str) -> None:
        self._environ.setdefault(service, {}).update(variables)

    def _relays(self, ground: Ground, ports: Sequence[ServerPorts]) -> None:
        relay = ground.relay = Relay()
        self._closing.callback(relay.close)
        for node in self._nodes:
            ground.nodes[node] = tuple(relay.link(each.client) for each in ports)
            ground.checkpointers[node] = tuple(relay.link(each.client) for each in ports)
            self._give(
                node,
                LOCAL_NODE_SERVERS=_addresses(ground.nodes[node]),
                CHECKPOINTER_SERVERS=_addresses(ground.checkpointers[node]),
            )

    def _clocks(self, ground: Ground) -> None:
        folder = self._work / "clocks"
        folder.mkdir()
        path = os.pathsep.join([str(CLOCK), *filter(None, [os.environ.get("PYTHONPATH")])])
        gateways = [f"gateway-{number}" for number in range(1, GATEWAYS + 1)]
        for service in (*self._nodes, *manager_names(), *gateways):
            file = ground.clocks[service] = folder / service
            file.write_text("0\n")
            self._give(service, PYTHONPATH=path, CHAOS_CLOCK_FILE=str(file))

    def _failpoints(self, ground: Ground) -> None:
        folder = self._work / "faults"
        ground.plans = PlanFolder(folder)
        ground.plans.make()
        for node in self._nodes:
            self._give(node, CHECKPOINTER_FAILPOINTS=str(folder))
        for manager in manager_names():
            self._give(manager, POOL_FAILPOINTS=str(folder))

    def _server_disk(self, ground: Ground) -> None:
        server = open_layout(self._folder.servers).servers()[-1]
        self._small_disk(server.store, SERVER_DISK_MIB, 0o700)
        ground.disks["server_disk"] = (server.name, server.store)

    def _node_disk(self, ground: Ground) -> None:
        node = self._nodes[0]
        place = self._folder.nodes / node
        self._small_disk(place, NODE_DISK_MIB, 0o711)
        ground.disks["node_disk"] = (node, place)

    def _store_folder(self, ground: Ground) -> None:
        ground.store = self._work / "store"
        ground.store.mkdir(mode=0o700)

    def _store_disk(self, ground: Ground) -> None:
        place = ground.store = self._work / "store"
        self._small_disk(place, STORE_DISK_MIB, 0o700)
        ground.disks["store_disk"] = ("store", place)

    def _small_disk(self, place: Path, size_mib: int, mode: int) -> None:
        place.mkdir(mode=mode, exist_ok=True)
        self._closing.callback(unmount, place)
        mount_small(place, size_mib, mode)

    def _power(self, ground: Ground) -> None:
        disk = PowerDisk(self._work / "power.img", self._work / "power", POWER_DISK_MIB)
        self._closing.callback(disk.remove)
        disk.make()
        for server in open_layout(self._folder.servers).servers():
            disk.show(server.name, server.store)
        ground.power = disk


def _addresses(links: Sequence[Link]) -> str:
    return ",".join(f"nats://{LOOPBACK}:{link.port}" for link in links)
