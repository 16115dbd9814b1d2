"""An embedded cluster for one side of a lab: in a fresh folder, gone afterwards; and the hands that break it."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from agent_sandbox import Client, ClientOptions
from agent_sandbox.demo.victims import find_worker
from agent_sandbox.embedded.bring_up import ask_pools
from agent_sandbox.embedded.folder import Folder
from agent_sandbox.embedded.fresh import fresh_folder as fresh_folder_of
from agent_sandbox.embedded.pools import to_toml
from agent_sandbox.embedded.procs import ProcessId
from agent_sandbox.embedded.table import Table, read_table
from agent_sandbox.embedded.up import down, up
from agent_sandbox.embedded.wishes import Wishes
from labs.frame import CannotRun, Say
from shared.bus import Bus, BusOptions
from shared.identity import read_credential
from shared.pools import PoolSpec
from shared.views import PoolsAnswer, PoolView

UP_S = 120.0
WARM_S = 120.0
POLL_S = 0.1
ASK_S = 5.0
fresh_folder = partial(fresh_folder_of, "lab")
"""Make a folder that is gone at the end; sandboxes with a uid of their own get through it."""


class Cluster:
    """A running cluster."""

    def __init__(self, folder: Folder, status: Bus) -> None:
        """Use `embedded`."""
        self.folder = folder
        self._status = status

    def client(self) -> Client:
        """Return a client, not yet connected."""
        return Client(ClientOptions(state=self.folder.path))

    async def ask(self) -> PoolsAnswer:
        """Return how pools and nodes are."""
        return await ask_pools(self._status, timeout_s=ASK_S)

    async def pool(self, name: str) -> PoolView:
        """Return how one pool is.

        Raises:
            CannotRun: the pool-managers do not know it.
        """
        for view in (await self.ask()).pools:
            if view.pool == name:
                return view
        raise CannotRun(f"pool {name}: the pool-managers do not know it")

    async def wait_full(self, name: str, count: int) -> PoolView:
        """Wait until a pool has so many warm workers and none in start.

        Raises:
            CannotRun: it does not come to that in time.
        """
        until = time.monotonic() + WARM_S
        while True:
            view = await self.pool(name)
            if view.warm >= count and not view.starting:
                return view
            if time.monotonic() > until:
                raise CannotRun(f"pool {name}: {view.warm} of {count} workers {view.reason}")
            await asyncio.sleep(POLL_S)

    def table(self) -> Table:
        """Return what the supervisor keeps.

        Raises:
            CannotRun: it is gone.
        """
        table = read_table(self.folder)
        if table is None:
            raise CannotRun("the cluster's supervisor is gone")
        return table

    def worker(self, name: str) -> ProcessId:
        """Return the process of a worker.

        Raises:
            CannotRun: it does not run.
        """
        found = find_worker(self.folder, name, self.table().supervisor.pid)
        if found is None:
            raise CannotRun(f"worker {name} does not run")
        return found

    def kill_node(self, name: str) -> float:
        """Kill a virtual node with all that runs on it; return when, seconds of the monotonic clock.

        Raises:
            CannotRun: it does not run.
        """
        for row in self.table().rows:
            if row.name == name and row.process is not None:
                row.process.send(signal.SIGKILL)
                return time.monotonic()
        raise CannotRun(f"{name} does not run")


@asynccontextmanager
async def embedded(
    pools: Sequence[PoolSpec], say: Say, *, nodes: int = 2
) -> AsyncIterator[Cluster]:
    """Start a cluster with these pools; at the end nothing of it is left, however the block ends.

    Raises:
        ServiceError: it did not come up.
    """
    with fresh_folder() as parent:
        folder = Folder(parent / "state")
        try:
            declared = parent / "pools.toml"
            await asyncio.to_thread(declared.write_text, to_toml(tuple(pools)))
            wishes = Wishes(pools=declared, nodes=nodes, base_port=0)
            done = await asyncio.to_thread(up, folder, wishes, wait_s=UP_S, say=lambda _: None)
            say(f"an embedded cluster is up after {done.took_s:.1f} s")
            credential = await asyncio.to_thread(read_credential, folder.status_credential)
            options = BusOptions(servers=folder.read().direct, name="lab", credential=credential)
            status = await Bus.connect(options)
            try:
                yield Cluster(folder, status)
            finally:
                await status.close()
        finally:
            if folder.exists():
                await asyncio.shield(asyncio.to_thread(down, folder, say=lambda _: None))
