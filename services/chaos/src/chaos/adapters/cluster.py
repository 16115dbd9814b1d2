"""The system under test: an embedded cluster in a folder of its own, gone at the end; and how faults see it (`Site`)."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from agent_sandbox import Client, ClientOptions
from agent_sandbox.embedded.bring_up import ask_pools
from agent_sandbox.embedded.child import last_lines
from agent_sandbox.embedded.folder import Folder
from agent_sandbox.embedded.fresh import fresh_folder
from agent_sandbox.embedded.pools import to_toml
from agent_sandbox.embedded.table import Kind, Row, read_table
from agent_sandbox.embedded.up import down, up
from agent_sandbox.embedded.wishes import Wishes
from chaos.adapters.ground import laid
from chaos.ports import Ground, Need
from shared.bus import Bus, BusOptions
from shared.errors import ServiceError, Unavailable
from shared.identity import load_identity, read_credential, roles
from shared.pools import PoolSpec
from shared.views import PoolsAnswer, PoolView

UP_S = 240.0
"""Ten nodes and all services at once take a busy machine long."""
WARM_S = 240.0
POLL_S = 0.3
ASK_S = 3.0
LAST_LINES = 3

Say = Callable[[str], None]


class Embedded:
    """A running cluster, private to this run (see `Site`)."""

    def __init__(
        self, folder: Folder, buses: list[Bus], now: Callable[[], float], ground: Ground
    ) -> None:
        """Use `embedded`."""
        self.folder, self.ground = folder, ground
        self._status, self.admin, self.second = buses
        self._now = now
        self._holds = 0

    def now(self) -> float:
        """Return the injector's clock."""
        return self._now()

    def rows(self, kind: Kind) -> list[Row]:
        """Return what the supervisor keeps, of a kind.

        Raises:
            Unavailable: its table is gone.
        """
        table = read_table(self.folder)
        if table is None:
            raise Unavailable("the supervisor's table is gone")
        return [row for row in table.rows if row.kind == kind]

    async def leaders(self, *streams: str) -> dict[str, str]:
        """Return the server that leads each of the streams; those whose leader is not known are left out."""
        found: dict[str, str] = {}
        for stream in streams:
            with suppress(ServiceError):
                info = await self.admin.js_api(f"STREAM.INFO.{stream}", {}, timeout_s=ASK_S)
                if leader := (info.get("cluster") or {}).get("leader"):
                    found[stream] = leader
        return found

    async def behind(self, server: str) -> list[str]:
        """Return the streams of which a server does not have all that their leaders have."""
        names = (await self.admin.js_api("STREAM.NAMES", {}, timeout_s=ASK_S))["streams"]
        found = []
        for name in names:
            info = await self.admin.js_api(f"STREAM.INFO.{name}", {}, timeout_s=ASK_S)
            replicas = (info.get("cluster") or {}).get("replicas") or ()
            if any(one["name"] == server and not one.get("current") for one in replicas):
                found.append(name)
        return found

    def hold(self) -> None:
        """Let the supervisor start nothing again from now on."""
        self._holds += 1
        if self._holds == 1:
            self._signal_supervisor(signal.SIGSTOP)

    def release(self) -> None:
        """Take one hold back."""
        if self._holds == 0:
            return
        self._holds -= 1
        if self._holds == 0:
            self._signal_supervisor(signal.SIGCONT)

    def release_all(self) -> None:
        """Take all holds back: a supervisor that stands still could end nothing."""
        self._holds = 0
        with suppress(Unavailable):
            self._signal_supervisor(signal.SIGCONT)

    def _signal_supervisor(self, number: signal.Signals) -> None:
        table = read_table(self.folder)
        if table is None:
            raise Unavailable("the supervisor's table is gone")
        table.supervisor.send(number)

    # --- how it stands -----------------------------------------------------------------------------------------------

    async def pools(self) -> PoolsAnswer:
        """Return how pools and nodes are.

        Raises:
            ServiceError: nobody tells.
        """
        return await ask_pools(self._status, timeout_s=ASK_S)

    async def wait_warm(self, pool: str, count: int, say: Say) -> str:
        """Wait until a pool has so many warm workers and none in start; return their isolation class.

        Raises:
            Unavailable: it does not come to that in time.
        """
        until = time.monotonic() + WARM_S
        said = ""
        while time.monotonic() < until:
            with suppress(ServiceError):
                view = _of(await self.pools(), pool)
                if view is not None and view.warm >= count and not view.starting:
                    return "+".join(sorted(name for name, pods in view.classes.items() if pods))
                if view is not None and f"{view.warm // 20}" != said:
                    said = f"{view.warm // 20}"
                    say(f"{view.warm} of {count} workers wait")
            await asyncio.sleep(POLL_S)
        raise Unavailable(f"pool {pool}: not {count} workers within {WARM_S:g} s")

    # --- ways in -----------------------------------------------------------------------------------------------------

    def client(self) -> Client:
        """Return a client over NATS, not yet connected."""
        return Client(ClientOptions(state=self.folder.path))

    def web_client(self) -> Client:
        """Return a client through the gateways, not yet connected."""
        token = self.folder.token_file.read_text().strip()
        return Client(ClientOptions(servers=self.folder.read().gateways, token=token))


def _of(answer: PoolsAnswer, pool: str) -> PoolView | None:
    return next((view for view in answer.pools if view.pool == pool), None)


@asynccontextmanager
async def embedded(
    pool: PoolSpec,
    nodes: int,
    now: Callable[[], float],
    say: Say,
    needs: frozenset[Need] = frozenset(),
) -> AsyncIterator[Embedded]:
    """Start a cluster with a pool in a fresh folder; at the end nothing of it is left, however the block ends.

    Args:
        pool: it holds this one.
        nodes: how many.
        now: the injector's clock.
        say: told how far it is.
        needs: what the faults to come need.

    Raises:
        ServiceError: it did not come up.
        NoGround: this machine has not what is needed.
    """
    names = [f"node-{number}" for number in range(1, nodes + 1)]
    with fresh_folder("chaos") as parent:
        folder = Folder(parent / "state")
        async with laid(folder, needs, names) as ground:
            cluster: Embedded | None = None
            try:
                declared = parent / "pools.toml"
                await asyncio.to_thread(declared.write_text, to_toml((pool,)))
                wishes = Wishes(pools=declared, nodes=nodes, base_port=0)
                done = await asyncio.to_thread(up, folder, wishes, wait_s=UP_S, say=say)
                say(f"the cluster is up after {done.took_s:.1f} s")
                async with _connections(folder) as buses:
                    cluster = Embedded(folder, buses, now, ground)
                    yield cluster
            except ServiceError:
                _show_logs(folder, say)
                raise
            finally:
                if cluster is not None:
                    cluster.release_all()
                if folder.exists():
                    await asyncio.shield(asyncio.to_thread(down, folder, say=lambda _: None))


@asynccontextmanager
async def _connections(folder: Folder) -> AsyncIterator[list[Bus]]:
    """Yield three connections: one that asks for the state, and two that may do everything, to different servers."""
    servers = folder.read().direct
    signer = load_identity(folder.servers / "identity.json").signer
    wanted = [
        ("status", servers, read_credential(folder.status_credential)),
        ("chaos", servers, signer.mint("chaos", roles.admin())),
        ("chaos-2", (*servers[1:], servers[0]), signer.mint("chaos-2", roles.admin())),
    ]
    opened: list[Bus] = []
    try:
        for name, places, credential in wanted:
            options = BusOptions(servers=places, name=name, credential=credential)
            opened.append(await Bus.connect(options))
        yield opened
    finally:
        for bus in opened:
            await bus.close()


def _show_logs(folder: Folder, say: Say) -> None:
    """Tell the last words of each process: the folder is gone in a moment."""
    for log in sorted(folder.logs.glob("*.log")) if folder.logs.is_dir() else ():
        if words := last_lines(log, LAST_LINES).strip():
            say(f"{log.stem}: {words[-400:]}")
