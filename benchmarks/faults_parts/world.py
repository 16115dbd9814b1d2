"""A small cluster of real processes with failpoints: three servers, two pool-managers, one node with its checkpointer and workers.

Whoever dies is started again, as a kubelet or the supervisor would.
"""

from __future__ import annotations

import asyncio
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from agent_sandbox.embedded.pools import to_toml
from agent_sandbox.embedded.procs import die_with_parent
from faults_parts.waiting import wait_for
from shared import messages, subjects
from shared.bus import Bus, BusOptions, Message
from shared.bus.provision import provision
from shared.cluster import Cluster, open_cluster
from shared.failpoints import PlanFolder
from shared.identity import Permissions, Signer, roles, write_credential, write_secret
from shared.messages import NodeBeat
from shared.pools import PoolSpec
from shared.testing.recorder import Recorder, record
from shared.topology import topology

MANAGERS = ("pm-1", "pm-2")
NODE = "node-1"
RESTART_S = 0.2
"""Pause before a dead process is started again."""
READY_S = 40.0


class Process:
    """A service that is kept alive."""

    def __init__(self, name: str, module: str, environ: dict[str, str], folder: Path) -> None:
        """Describe it; `run` starts it."""
        self.name = name
        self.deaths = 0
        self.ready = folder / f"{name}.ready"
        self.log = folder / f"{name}.log"
        self.popen: subprocess.Popen[bytes] | None = None
        self._module = module
        self._environ = {**os.environ, **environ, "PYTHONUNBUFFERED": "1"}

    async def run(self) -> None:
        """Keep it alive until cancelled; then end it, with what it started."""
        try:
            while True:
                self._start()
                assert self.popen is not None
                await wait_for(self._is_dead, within_s=math.inf, every_s=0.05)
                self.deaths += 1
                await asyncio.sleep(RESTART_S)
        finally:
            if self.popen is not None and self.popen.poll() is None:
                self.popen.terminate()
                try:
                    await asyncio.to_thread(self.popen.wait, 12)
                except subprocess.TimeoutExpired:
                    self.popen.kill()
                    self.popen.wait()

    def _start(self) -> None:
        self.ready.unlink(missing_ok=True)
        with self.log.open("ab") as log:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", self._module],
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent(signal.SIGKILL),  # noqa: PLW1509 - two system calls, one thread
            )

    def _is_dead(self) -> bool:
        return self.popen is None or self.popen.poll() is not None

    def kill(self) -> None:
        """Kill it; it comes back."""
        assert self.popen is not None
        self.popen.kill()


class World:
    """The running cluster."""

    def __init__(self, folder: Path, pools: tuple[PoolSpec, ...], cluster: Cluster) -> None:
        """Use `open_world`."""
        self.folder, self.pools, self.cluster = folder, pools, cluster
        self.plans = PlanFolder(folder / "faults")
        self.managers = [self._manager(name) for name in MANAGERS]
        self.node = self._node()
        self.checkpointer = self._checkpointer()
        self.pods: tuple[str, ...] = ()
        """What the node has, by its newest heartbeat."""
        self.admin: Bus
        self.recorder: Recorder

    @property
    def processes(self) -> list[Process]:
        """What is kept alive."""
        return [*self.managers, self.node, self.checkpointer]

    def credential(self, name: str, permissions: Permissions, signer: Signer | None = None) -> Path:
        """Mint a user; return its file."""
        path = self.folder / f"{name}.creds"
        write_credential(path, (signer or self.cluster.identity.signer).mint(name, permissions))
        return path

    def client_credential(self, tenant: str) -> Path:
        """Mint a tenant's client."""
        identity = self.cluster.identity
        return self.credential(f"c-{tenant}", roles.publisher(tenant), identity.client_signer)

    def _manager(self, name: str) -> Process:
        watcher = self.credential(
            f"{name}-system",
            roles.system_watcher(f"{name}-system"),
            self.cluster.identity.system_signer,
        )
        environ = {
            "POOL_NAME": name,
            "POOL_NATS_SERVERS": ",".join(self.cluster.urls),
            "POOL_CREDENTIAL_FILE": str(self.credential(name, roles.pool_manager(name))),
            "POOL_SYSTEM_CREDENTIAL_FILE": str(watcher),
            "POOL_SIGNER_FILE": str(self.folder / "signer.json"),
            "POOL_POOLS_FILE": str(self.folder / "pools.toml"),
            "POOL_READY_FILE": str(self.folder / f"{name}.ready"),
            "POOL_SPARE_S": "2",
            "POOL_FAILPOINTS": str(self.folder / "faults"),
        }
        return Process(name, "pool_manager", environ, self.folder)

    def _node(self) -> Process:
        environ = {
            "LOCAL_NODE_NAME": NODE,
            "LOCAL_NODE_SERVERS": ",".join(self.cluster.urls),
            "LOCAL_NODE_CREDENTIAL_FILE": str(self.credential(NODE, roles.local_node(NODE))),
            "LOCAL_NODE_DIR": str(self.folder / NODE),
            "LOCAL_NODE_READY_FILE": str(self.folder / f"{NODE}.ready"),
            "LOCAL_NODE_OFFERED": "process",
            "LOCAL_NODE_DRAIN_S": "3",
            # Kept here: a node lets one that dies again and again wait for longer each time.
            "LOCAL_NODE_CHECKPOINTER": "sleep,infinity",
        }
        return Process(NODE, "local_node", environ, self.folder)

    def _checkpointer(self) -> Process:
        name = f"ckpt-{NODE}"
        environ = {
            "CHECKPOINTER_NODE": NODE,
            "CHECKPOINTER_SERVERS": ",".join(self.cluster.urls),
            "CHECKPOINTER_CREDENTIAL_FILE": str(self.credential(name, roles.checkpointer(NODE))),
            "CHECKPOINTER_PODS_DIR": str(self.folder / NODE / "pods"),
            "CHECKPOINTER_READY_FILE": str(self.folder / f"{name}.ready"),
            "CHECKPOINTER_LOOK_S": "2",
            "CHECKPOINTER_FAILPOINTS": str(self.folder / "faults"),
        }
        return Process(name, "checkpointer", environ, self.folder)

    def hear_node(self, message: Message) -> None:
        """Take in the node's heartbeat."""
        self.pods = messages.decode(message.data, NodeBeat).pods

    async def wait_ready(self) -> None:
        """Wait until all processes say that they can work.

        Raises:
            RuntimeError: they do not in time.
        """
        until = time.monotonic() + READY_S
        while not all(process.ready.exists() for process in self.processes):
            if time.monotonic() > until:
                words = [f"{p.name}: {p.log.read_text()[-300:]}" for p in self.processes]
                raise RuntimeError("the cluster does not come up: " + "; ".join(words))
            await asyncio.sleep(0.05)


@asynccontextmanager
async def open_world(
    folder: Path, pools: tuple[PoolSpec, ...], say: Callable[[str], None]
) -> AsyncIterator[World]:
    """Start a cluster with its state in `folder`; at the end nothing of it runs."""
    cluster = open_cluster(folder / "nats")
    cluster.start(die_with_parent=True)
    try:
        await asyncio.to_thread(cluster.wait_ready, deadline_s=READY_S)
        (folder / "pools.toml").write_text(to_toml(pools))
        write_secret(
            folder / "signer.json", msgspec.json.encode(cluster.identity.worker_signer).decode()
        )
        world = World(folder, pools, cluster)
        world.plans.make()
        async with _connected(cluster, pools) as bus, record(bus) as recorder:
            world.admin, world.recorder = bus, recorder
            await bus.subscribe(subjects.node_heartbeat(), world.hear_node)
            async with asyncio.TaskGroup() as group:
                keeping = [group.create_task(process.run()) for process in world.processes]
                try:
                    await world.wait_ready()
                    say("the cluster is up")
                    yield world
                finally:
                    for task in keeping:
                        task.cancel()
    finally:
        cluster.kill()


@asynccontextmanager
async def _connected(cluster: Cluster, pools: tuple[PoolSpec, ...]) -> AsyncIterator[Bus]:
    credential = cluster.identity.signer.mint("admin", roles.admin())
    bus = await Bus.connect(BusOptions(servers=cluster.urls, name="admin", credential=credential))
    try:
        wanted = topology(pools, created_ms=int(time.time() * 1000))
        drift = await provision(bus, wanted, place_leaders=True)
        assert not drift, drift
        yield bus
    finally:
        await bus.close()
