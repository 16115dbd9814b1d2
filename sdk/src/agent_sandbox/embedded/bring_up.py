"""The steps of a start: servers form a cluster, streams are made, workers become warm. Each says what it waits for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from agent_sandbox import places
from agent_sandbox.embedded.child import Child
from agent_sandbox.embedded.folder import ClusterFile, Folder
from agent_sandbox.embedded.pools import check_isolation
from agent_sandbox.embedded.programs import node_names
from agent_sandbox.streams import Streams
from shared import logs, messages, subjects
from shared.bus import Bus, BusOptions
from shared.cluster import Cluster, monitor
from shared.errors import NotFound, OutcomeUnknown, Unavailable
from shared.identity import read_credential
from shared.messages import Message
from shared.pools import PoolSpec
from shared.views import PoolsAnswer

log = logs.get(__name__)

SERVERS_S = 60.0
"""Elections take 4 to 9 s; a large store takes longer to read."""
CONNECT_S = 20.0
POLL_S = 0.1
DEATHS_MAX = 6
"""A service that dies so often in a row at a start will not come up."""

Say = Callable[[str], None]


async def wait_servers(cluster: Cluster, say: Say) -> None:
    """Wait until the servers form one cluster in which every stream has a leader.

    Raises:
        ClusterFailed: a server ended, with its own words.
        Unavailable: not within SERVERS_S; says what is missing.
    """
    until = time.monotonic() + SERVERS_S
    places = {s.name: (s.host, s.ports.monitor) for s in cluster.servers}
    while True:
        for server in cluster.servers:
            server.check()
        missing = await asyncio.to_thread(monitor.what_is_missing, places)
        if missing is None:
            return
        if time.monotonic() > until:
            raise Unavailable(f"the servers form no cluster after {SERVERS_S:g} s: {missing}")
        say(f"servers: {missing}")
        await asyncio.sleep(POLL_S)


def streams_of(cluster: Cluster, created_ms: int) -> Streams:
    """Return the streams of an embedded cluster that was made at `created_ms`."""
    return Streams(tuple(cluster.urls), cluster.identity.signer, created_ms)


async def wait_warm(
    folder: Folder,
    wishes: ClusterFile,
    pools: Sequence[PoolSpec],
    services: Sequence[Child],
    say: Say,
) -> None:
    """Wait until every service works and a worker is warm in each pool that has a stock.

    It waits as long as it takes: who asked for the cluster has a deadline of his own.

    Raises:
        NotFound: no node has the isolation that a pool promises.
        Unavailable: a service dies again and again.
    """
    async with _ask_as_status(folder) as bus:
        while missing := await _what_is_missing(bus, wishes, pools, services):
            say(missing)
            await asyncio.sleep(POLL_S)


async def check_promises(folder: Folder, pools: Sequence[PoolSpec]) -> None:
    """Check pools against the nodes that run already, before anything is changed.

    Raises:
        NotFound: no node has the isolation that a pool promises.
        Unavailable: the pool-managers do not answer.
    """
    async with _ask_as_status(folder) as bus:
        answer = await ask_pools(bus, timeout_s=CONNECT_S)
    check_isolation(
        tuple(pools), {node.node: node.isolation for node in answer.nodes if node.alive}
    )


@asynccontextmanager
async def _ask_as_status(folder: Folder) -> AsyncIterator[Bus]:
    credential = await asyncio.to_thread(read_credential, folder.status_credential)
    bus = await Bus.connect(
        BusOptions(servers=folder.read().direct, name="supervisor", credential=credential),
        deadline_s=CONNECT_S,
    )
    try:
        yield bus
    finally:
        await bus.close()


async def _what_is_missing(
    bus: Bus, wishes: ClusterFile, pools: Sequence[PoolSpec], services: Sequence[Child]
) -> str:
    """Return what keeps the cluster from being ready, in words; empty: nothing."""
    for child in services:
        if child.deaths >= DEATHS_MAX:
            raise Unavailable(
                f"{child.row.name} dies at its start ({child.row.last_exit}): {child.program.last_words()}"
            )
    unready = [child.row.name for child in services if not child.is_ready]
    if unready:
        return f"not ready yet: {', '.join(unready)}"
    try:
        answer = await ask_pools(bus, timeout_s=1.0)
    except (NotFound, Unavailable, OutcomeUnknown):
        return "no pool-manager answers yet"
    alive = {node.node: node.isolation for node in answer.nodes if node.alive}
    if absent := [name for name in node_names(wishes) if name not in alive]:
        return f"not heard yet: {', '.join(absent)}"
    check_isolation(tuple(pools), alive)
    views = {view.pool: view for view in answer.pools}
    lacking = []
    for pool in pools:
        view = views.get(pool.name)
        if view is None:
            lacking.append(f"{pool.name}: not known yet")
        elif pool.stock and not view.warm:
            reason = f" ({view.reason})" if view.reason else ""
            lacking.append(f"{pool.name}: no warm worker yet, {view.starting} starting{reason}")
    return "; ".join(lacking)


async def ask_pools(bus: Bus, *, timeout_s: float) -> PoolsAnswer:
    """Ask the pool-managers how pools and nodes are.

    Raises:
        NotFound: none is there.
        Unavailable: not connected, or it says so.
        OutcomeUnknown: no answer.
    """
    answer = messages.decode(
        (
            await bus.request(
                subjects.ask(places.TENANT, "pools"),
                messages.encode(Message()),
                timeout_s=timeout_s,
            )
        ).data,
        PoolsAnswer,
    )
    if answer.error:
        raise Unavailable(answer.error.message)
    return answer
