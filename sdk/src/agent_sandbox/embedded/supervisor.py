"""The supervisor: brings the cluster up, keeps its processes alive, applies what `up` wishes, takes everything down."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine
from typing import Any

import msgspec

from agent_sandbox.embedded import gateways, programs
from agent_sandbox.embedded import pools as pools_of
from agent_sandbox.embedded.bring_up import (
    check_promises,
    streams_of,
    wait_servers,
    wait_warm,
)
from agent_sandbox.embedded.child import Child, Program, Server, Service, trim_log
from agent_sandbox.embedded.companions import companions, process_of
from agent_sandbox.embedded.doctor import Doctor, Hand, Patient
from agent_sandbox.embedded.folder import ClusterFile, Folder
from agent_sandbox.embedded.nurse import Nurse
from agent_sandbox.embedded.procs import identify
from agent_sandbox.embedded.table import Phase, Table, boot_id, write_table
from agent_sandbox.embedded.wishes import digest
from shared import logs
from shared.cluster import Cluster, open_cluster
from shared.errors import ErrorInfo, ServiceError
from shared.pools import PoolSpec
from shared.service import Stop

log = logs.get(__name__)

TIDY_EVERY_S = 30.0


class Supervisor:
    """Runs one cluster until it is told to stop. The caller holds the folder's lock."""

    def __init__(self, folder: Folder) -> None:
        """Start nothing yet."""
        me = identify(os.getpid())
        assert me is not None
        self._folder = folder
        self._table = Table(boot=boot_id(), supervisor=me)
        self._children: dict[str, Child] = {}
        self._keeping: dict[str, asyncio.Task[None]] = {}
        self._wished = asyncio.Event()
        self._cluster: Cluster | None = None
        self._stop = Stop()

    async def run(self, stop: Stop) -> None:
        """Bring the cluster up and keep it up until `stop`, then take it down.

        Raises:
            ServiceError: it could not be brought up; nothing is left running.
        """
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._wished.set)
        self._stop = stop
        try:
            await self._until_stop(stop, self._bring_up())
            doctoring = asyncio.create_task(self._doctor().run())
            nursing = asyncio.create_task(self._nurse().run())
            try:
                while not stop.is_set:
                    await self._until_stop(stop, self._keep_up())
            finally:
                doctoring.cancel()
                nursing.cancel()
        except ServiceError as exc:
            self._say(phase="failed", error=exc.info())
            raise
        except Exception as exc:
            self._say(
                phase="failed", error=ErrorInfo(code="bug", message=f"{type(exc).__name__}: {exc}")
            )
            raise
        finally:
            await self._take_down()

    # --- up --------------------------------------------------------------------------------------------------------

    async def _bring_up(self) -> None:
        folder = self._folder
        wishes = folder.read()
        self._say(phase="servers", detail="starting three NATS servers")
        pools = pools_of.effective(pools_of.read_declared(folder), wishes)
        cluster = self._cluster = open_cluster(folder.servers, base_port=wishes.base_port)
        # Not in a thread: the kernel kills the servers when the *thread* that started them ends.
        cluster.start(die_with_parent=True)
        for server in cluster.servers:
            self._keep(Server(server))
        await wait_servers(cluster, lambda detail: self._say(detail=detail))
        reached = {
            "servers": cluster.edge_urls,
            "direct": cluster.urls,
            "gateways": gateways.addresses(cluster.layout.file.gateways),
        }
        folder.write(msgspec.structs.replace(wishes, **reached))
        self._say(phase="streams", detail="making streams and consumers")
        await self._apply(cluster, pools)

    async def _keep_up(self) -> None:
        """Wait for new wishes and apply them; every now and then trim the logs."""
        assert self._cluster is not None
        try:
            async with asyncio.timeout(TIDY_EVERY_S):
                await self._wished.wait()
        except TimeoutError:
            for child in self._children.values():
                if isinstance(child.program, Service):
                    trim_log(child.program.log_file)
            self._renew_credentials(self._cluster, self._folder.read())
            return
        try:
            self._wished.clear()
            wishes = self._folder.read()
            pools = pools_of.effective(pools_of.read_declared(self._folder), wishes)
            await check_promises(self._folder, pools)
            await self._apply(self._cluster, pools)
        except ServiceError as exc:  # what runs goes on as it is; `up` tells the person
            log.warning("wishes.refused", code=exc.code, error=str(exc))
            self._say(phase="ready", detail="", error=exc.info(), applied=digest(self._folder))

    async def _apply(self, cluster: Cluster, pools: tuple[PoolSpec, ...]) -> None:
        """Make everything as it is wished, and wait until workers are warm."""
        wished = digest(self._folder)
        wishes = self._folder.read()
        streams = streams_of(cluster, wishes.created_ms)
        await streams.provision(pools)
        pools_of.write_effective(self._folder, pools)
        programs.write_credentials(
            self._folder, cluster.identity, wishes, anew=not self._services()
        )
        gateways.write_access(self._folder)
        self._say(phase="services", detail="starting pool-managers, nodes and gateways")
        wanted = (
            programs.edges(self._folder, wishes, cluster.layout.file.ports)
            + programs.managers(self._folder, wishes, pools)
            + programs.local_nodes(self._folder, wishes)
            + gateways.gateways(self._folder, wishes, cluster.layout.file.gateways)
        )
        for service in wanted:
            service.env |= wishes.environ.get(service.name, {})
        await self._keep_exactly(wanted)
        self._say(phase="warming", detail="waiting for warm workers")
        spreading = asyncio.create_task(streams.spread_leaders(pools))
        try:
            await wait_warm(
                self._folder,
                wishes,
                pools,
                self._services(),
                lambda detail: self._say(detail=detail),
            )
            await spreading
        finally:
            spreading.cancel()
        self._say(phase="ready", detail="", applied=wished)
        log.info("cluster.ready", pools=[pool.name for pool in pools], nodes=wishes.nodes)

    def _renew_credentials(self, cluster: Cluster, wishes: ClusterFile) -> None:
        """Write the services' credentials anew in time; they read them before the former ones end."""
        try:
            programs.write_credentials(self._folder, cluster.identity, wishes, anew=False)
        except OSError as exc:  # a full disk: tried again long before anything ends
            log.error("credentials.not_renewed", error=str(exc))  # noqa: TRY400 - the reason says all

    def _doctor(self) -> Doctor:
        assert self._cluster is not None
        patients = {
            server.name: Patient(server.ports.monitor, server.files.store)
            for server in self._cluster.servers
        }
        hand = Hand(
            restart=lambda name: self._children[name].restart(),
            kill=lambda name: self._children[name].restart(signal.SIGKILL),
        )
        return Doctor(patients, hand, say=lambda detail: self._say(detail=detail))

    def _nurse(self) -> Nurse:
        def running() -> dict[str, str]:
            rows = [child.row for child in self._services()]
            rows += companions(rows)
            return {row.name: row.kind for row in rows if row.state == "running"}

        def kill(name: str) -> None:
            if name in self._children:
                self._children[name].restart(signal.SIGKILL)
            elif process := process_of([child.row for child in self._services()], name):
                process.send(signal.SIGKILL)  # its node starts it again

        return Nurse(self._folder, running, kill)

    def _services(self) -> list[Child]:
        return [child for child in self._children.values() if child.row.kind != "server"]

    # --- processes -------------------------------------------------------------------------------------------------

    def _keep(self, program: Program) -> None:
        child = Child(program, self._say)
        self._children[program.name] = child
        keeping = asyncio.create_task(child.keep(), name=program.name)
        keeping.add_done_callback(self._keeper_ended)
        self._keeping[program.name] = keeping

    def _keeper_ended(self, keeping: asyncio.Task[None]) -> None:
        """A keeper ends when it is told to; anything else is our bug, and nobody would watch its process."""
        if not keeping.cancelled() and (exc := keeping.exception()) is not None:
            log.error("keeper.failed", name=keeping.get_name(), exc_info=exc)
            self._stop.set(f"the keeper of {keeping.get_name()} failed")

    async def _keep_exactly(self, wanted: list[Service]) -> None:
        """Keep these services and no others; one whose command or environment changed is started anew."""
        names = {service.name for service in wanted}
        for child in self._services():
            if child.row.name not in names:
                await self._drop(child)
        for service in wanted:
            present = self._children.get(service.name)
            if present is not None:
                if present.program == service:
                    continue
                await self._drop(present)
            self._keep(service)

    async def _drop(self, child: Child) -> None:
        name = child.row.name
        await child.stop()
        await self._keeping.pop(name)
        del self._children[name]
        self._say()

    # --- down ------------------------------------------------------------------------------------------------------

    async def _take_down(self) -> None:
        """End all processes, those that others depend on last; each within its grace."""
        failed = self._table.phase == "failed"
        if not failed:
            self._say(phase="stopping", detail="stopping")
        for kind in ("gateway", "node", "manager", "edge", "server"):
            chosen = [child for child in self._children.values() if child.row.kind == kind]
            await asyncio.gather(*(child.stop() for child in chosen))
        await asyncio.gather(*self._keeping.values(), return_exceptions=True)
        if self._cluster is not None:
            self._cluster.kill()  # what was started but not kept yet
        if not failed:
            self._say(phase="stopped", detail="")
        log.info("cluster.stopped")

    # --- small things ----------------------------------------------------------------------------------------------

    async def _until_stop(self, stop: Stop, work: Coroutine[Any, Any, None]) -> None:
        """Do `work`, but give it up when the supervisor is told to stop."""
        working = asyncio.ensure_future(work)
        stopping = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            if not working.done():
                working.cancel()
                await asyncio.wait({working}, timeout=5.0)
        if working.done() and not working.cancelled():
            working.result()

    def _say(
        self,
        *,
        phase: Phase | None = None,
        detail: str | None = None,
        error: ErrorInfo | None = None,
        applied: str | None = None,
    ) -> None:
        """Write the table, with what is given changed. A table that can't be written stops nothing."""
        self._table = msgspec.structs.replace(
            self._table,
            phase=phase or self._table.phase,
            detail=self._table.detail if detail is None else detail,
            error=error or (None if phase else self._table.error),
            applied=self._table.applied if applied is None else applied,
            rows=tuple(child.row for child in self._children.values()),
        )
        try:
            write_table(self._folder, self._table)
        except OSError as exc:
            log.error("table.not_written", error=str(exc))  # noqa: TRY400 - the reason says all
