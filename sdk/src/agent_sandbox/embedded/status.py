"""`status`: what runs, from the supervisor's table, the servers' monitoring and the pool-managers."""

from __future__ import annotations

import asyncio
from collections import Counter

import msgspec

from agent_sandbox.embedded.bring_up import ask_pools
from agent_sandbox.embedded.companions import companions
from agent_sandbox.embedded.folder import ClusterFile, Folder
from agent_sandbox.embedded.probing import ProbeView, probe_all
from agent_sandbox.embedded.table import Row, Table, read_table
from shared.bus import Bus, BusOptions
from shared.cluster import Layout, monitor, open_layout
from shared.errors import ErrorInfo, ServiceError
from shared.identity import read_credential
from shared.views import PoolsAnswer

CONNECT_S = 3.0
ASK_S = 2.0


class ServerView(msgspec.Struct, frozen=True, kw_only=True):
    """One server, as its monitoring says."""

    name: str
    port: int
    answers: bool
    leads: int | None
    """Streams and consumers that it leads; None: no server could tell."""
    is_meta_leader: bool = False


class StatusView(msgspec.Struct, frozen=True, kw_only=True):
    """All that `status` shows."""

    state: str
    phase: str
    """The supervisor's phase; `down` where it does not run, `crashed` where it ended without taking all down."""
    detail: str = ""
    error: ErrorInfo | None = None
    nodes_wished: int = 0
    processes: tuple[Row, ...] = ()
    servers: tuple[ServerView, ...] = ()
    gateways: dict[str, str] = {}
    """Where each gateway is asked, by its name."""
    probes: dict[str, ProbeView] = {}
    """What each service says of itself, by its name."""
    pools: PoolsAnswer | None = None
    pools_error: ErrorInfo | None = None
    """Why the pool-managers could not be asked."""

    @property
    def is_healthy(self) -> bool:
        """Whether everything that should run runs and answers."""
        return (
            self.phase == "ready"
            and not self.detail
            and all(row.state == "running" for row in self.processes)
            and all(server.answers for server in self.servers)
            and all(probe.ready for probe in self.probes.values())
            and self.pools is not None
        )


async def look(folder: Folder) -> StatusView:
    """Return how the cluster of a folder is.

    Raises:
        Rejected: no cluster in the folder, or it can't be read.
    """
    cluster = folder.read()
    table = read_table(folder)
    if table is None or not table.is_live():
        crashed = table is not None and table.phase not in ("stopped", "failed")
        return StatusView(
            state=str(folder.path),
            phase="crashed" if crashed else "down",
            error=table.error if table else None,
            nodes_wished=cluster.nodes,
        )
    servers = await asyncio.to_thread(_look_at_servers, folder)
    rows = _checked(table)
    rows += await asyncio.to_thread(companions, rows)
    services = [row.name for row in rows if row.kind != "server"]
    (pools, why), probes = await asyncio.gather(_ask(folder, cluster), probe_all(folder, services))
    return StatusView(
        state=str(folder.path),
        phase=table.phase,
        detail=table.detail,
        error=table.error,
        nodes_wished=cluster.nodes,
        processes=rows,
        servers=servers,
        gateways={f"gateway-{n}": url for n, url in enumerate(cluster.gateways, 1)},
        probes=probes,
        pools=pools,
        pools_error=why,
    )


def _checked(table: Table) -> tuple[Row, ...]:
    """Return the rows; a process that has just died is not called running."""
    return tuple(
        row
        if row.process is None or row.process.is_alive()
        else msgspec.structs.replace(row, state="restarting", process=None)
        for row in table.rows
    )


def _look_at_servers(folder: Folder) -> tuple[ServerView, ...]:
    layout: Layout = open_layout(folder.servers)
    names = [files.name for files in layout.servers()]
    ports = dict(zip(names, layout.file.ports, strict=True))
    told = {
        name: monitor.ask(port.monitor, "/jsz?accounts=true&streams=true&consumers=true")
        for name, port in ports.items()
    }
    leads: Counter[str] | None = None
    meta = ""
    for answer in told.values():
        if answer is not None:
            leads = _count_leaders(answer)
            meta = (answer.get("meta_cluster") or {}).get("leader", "")
            break
    return tuple(
        ServerView(
            name=name,
            port=port.client,
            answers=told[name] is not None,
            leads=None if leads is None else leads[name],
            is_meta_leader=name == meta,
        )
        for name, port in ports.items()
    )


def _count_leaders(answer: dict[str, object]) -> Counter[str]:
    """Return server -> how many streams and consumers it leads, by one server's account of them."""
    accounts = msgspec.convert(answer.get("account_details") or [], list[_Account])
    counted: Counter[str] = Counter()
    for account in accounts:
        for stream in account.stream_detail:
            counted[stream.cluster.leader] += 1
            counted.update(consumer.cluster.leader for consumer in stream.consumer_detail)
    return counted


class _Led(msgspec.Struct):
    leader: str = ""


class _Consumer(msgspec.Struct):
    cluster: _Led = msgspec.field(default_factory=_Led)


class _Stream(msgspec.Struct):
    cluster: _Led = msgspec.field(default_factory=_Led)
    consumer_detail: list[_Consumer] = []


class _Account(msgspec.Struct):
    stream_detail: list[_Stream] = []


async def _ask(folder: Folder, cluster: ClusterFile) -> tuple[PoolsAnswer | None, ErrorInfo | None]:
    try:
        credential = await asyncio.to_thread(read_credential, folder.status_credential)
        bus = await Bus.connect(
            BusOptions(servers=cluster.direct, name="status", credential=credential),
            deadline_s=CONNECT_S,
        )
    except ServiceError as exc:
        return None, exc.info()
    try:
        return await ask_pools(bus, timeout_s=ASK_S), None
    except ServiceError as exc:
        return None, exc.info()
    finally:
        await bus.close()
