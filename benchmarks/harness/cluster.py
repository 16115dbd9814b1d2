"""A private embedded cluster: in a fresh folder, for one benchmark, gone afterwards."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agent_sandbox import Client, ClientOptions
from agent_sandbox.embedded.bring_up import ask_pools
from agent_sandbox.embedded.folder import Folder
from agent_sandbox.embedded.pools import to_toml
from agent_sandbox.embedded.table import read_table
from agent_sandbox.embedded.up import down, up
from agent_sandbox.embedded.wishes import Wishes
from harness.groups import Roots
from harness.running import CannotMeasure, fresh_folder, say
from shared.bus import Bus, BusOptions
from shared.identity import load_identity, read_credential, roles
from shared.pools import PoolSpec
from shared.views import PoolView

UP_S = 120.0
WARM_S = 240.0
"""Longest wait for a full stock, seconds."""
POLL_S = 0.5


class Private:
    """A running cluster."""

    def __init__(self, folder: Folder, status: Bus, admin: Bus) -> None:
        """Use `private_cluster`."""
        self.folder = folder
        self.admin = admin
        """A connection that may do everything: the benchmark looks on through it."""
        self._status = status

    def client(self) -> Client:
        """Return a client, not yet connected."""
        return Client(ClientOptions(state=self.folder.path))

    def roots(self) -> Roots:
        """Return the processes from which all others of the cluster descend.

        Raises:
            CannotMeasure: one of them does not run.
        """
        table = read_table(self.folder)
        if table is None or any(row.process is None for row in table.rows):
            raise CannotMeasure(f"a process of the cluster is gone: see {self.folder.logs}")
        pids: dict[str, list[int]] = {"server": [], "edge": [], "manager": [], "node": []}
        pids["gateway"] = pids["edge"]  # both are clients' way in
        for row in table.rows:
            assert row.process is not None
            pids[row.kind].append(row.process.pid)
        return Roots(
            servers=pids["server"],
            edges=pids["edge"],
            managers=pids["manager"],
            nodes=pids["node"],
            supervisor=table.supervisor.pid,
            client=os.getpid(),
        )

    async def view(self, pool: str) -> PoolView:
        """Return how a pool is.

        Raises:
            CannotMeasure: the pool-managers do not know it.
        """
        answer = await ask_pools(self._status, timeout_s=5.0)
        for view in answer.pools:
            if view.pool == pool:
                return view
        raise CannotMeasure(f"pool {pool}: the pool-managers do not know it")

    async def wait_warm(self, pool: str, count: int, *, bound: int = 0) -> str:
        """Wait until exactly so many workers wait warm, none in start, and so many are bound; return their isolation class.

        Raises:
            CannotMeasure: they do not become as many in time.
        """
        until = time.monotonic() + WARM_S
        said = -1
        while True:
            view = await self.view(pool)
            if view.warm == count and not view.starting and view.bound == bound:
                return "+".join(sorted(name for name, pods in view.classes.items() if pods))
            if time.monotonic() > until:
                raise CannotMeasure(
                    f"pool {pool}: {view.warm} of {count} workers warm after {WARM_S:g} s, {view.starting} starting "
                    f"{view.reason}"
                )
            if view.warm // 50 != said:
                said = view.warm // 50
                say(f"pool {pool}: {view.warm} of {count} workers warm, {view.starting} starting")
            await asyncio.sleep(POLL_S)


@asynccontextmanager
async def private_cluster(
    pools: tuple[PoolSpec, ...], *, isolation: str = "auto", nodes: int | None = None
) -> AsyncIterator[Private]:
    """Start a cluster with these pools in a fresh folder; at the end nothing of it is left.

    Args:
        pools: what it holds.
        isolation: class of the sandboxes.
        nodes: virtual nodes; None: as many as `up` makes.

    Raises:
        ServiceError: it did not come up.
    """
    with fresh_folder() as parent:
        folder = Folder(parent / "state")
        try:
            declared = parent / "pools.toml"
            await asyncio.to_thread(declared.write_text, to_toml(pools))
            wishes = Wishes(pools=declared, isolation=isolation, nodes=nodes, base_port=0)
            done = await asyncio.to_thread(up, folder, wishes, wait_s=UP_S, say=say)
            say(f"cluster is up after {done.took_s:.1f} s")
            async with _connections(folder) as (status, admin):
                yield Private(folder, status, admin)
        except BaseException:
            _show_logs(folder)
            raise
        finally:
            if folder.exists():
                await asyncio.shield(asyncio.to_thread(down, folder, say=lambda _: None))


@asynccontextmanager
async def _connections(folder: Folder) -> AsyncIterator[tuple[Bus, Bus]]:
    servers = folder.read().direct
    identity = load_identity(folder.servers / "identity.json")
    credentials = {
        "status": read_credential(folder.status_credential),
        "bench": identity.signer.mint("bench", roles.admin()),
    }
    opened: list[Bus] = []
    try:
        for name, credential in credentials.items():
            opened.append(
                await Bus.connect(BusOptions(servers=servers, name=name, credential=credential))
            )
        yield opened[0], opened[1]
    finally:
        for bus in opened:
            await bus.close()


def _show_logs(folder: Folder) -> None:
    """Tell the last words of each process: the folder is gone in a moment."""
    if not folder.logs.is_dir():
        return
    for log in sorted(folder.logs.glob("*.log")):
        lines = log.read_text(errors="replace").splitlines()
        for line in lines[-3:]:
            say(f"{log.stem}: {line[:400]}")


def pool(name: str, *, stock: int, pods_max: int | None = None) -> PoolSpec:
    """Return a pool for a benchmark; without `pods_max` there is room for a refill while tasks run."""
    return PoolSpec(name=name, stock=stock, pods_max=pods_max or max(64, 4 * stock))
