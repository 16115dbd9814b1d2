"""One look at everything that must be there: what misses is made, what ends soon is renewed, what changed is applied."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Mapping

from agent_sandbox.provisioner import contents
from agent_sandbox.provisioner.contents import COUNT, Data, Root
from agent_sandbox.provisioner.ports import Keeper, Objects, Place, Workload
from agent_sandbox.provisioner.settings import ProvisionerSettings
from agent_sandbox.streams import Streams
from shared import logs
from shared.bus import Tls
from shared.cluster import monitor
from shared.errors import InvalidMessage, NotFound, ServiceError
from shared.pools import PoolSpec, parse_pools

log = logs.get(__name__)

DECLARED_POOLS = "agent-sandbox-pools"
"""ConfigMap in which the operator declares pools."""
POOLS_IN_FORCE = "pools-in-force"
"""ConfigMap of the pools whose streams are there: pool-managers read it."""
POOLS_KEY = "pools.toml"
ROOT = "agent-sandbox-root"
AUTHORITY = "agent-sandbox-ca"


def resolve(name: str) -> tuple[str, ...]:
    """Return the addresses of a host, none where it has none (yet)."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return ()
    return tuple(sorted({str(entry[4][0]) for entry in found}))


class SettingUp:
    """Brings one cluster into its form, and keeps it there."""

    def __init__(
        self,
        objects: Objects,
        settings: ProvisionerSettings,
        resolve: Callable[[str], tuple[str, ...]] = resolve,
    ) -> None:
        """Look at nothing yet.

        Args:
            objects: the Kubernetes API.
            settings: which cluster.
            resolve: returns the addresses of a host, none where it has none.
        """
        self._objects, self._settings, self._resolve = objects, settings, resolve
        self._applied: tuple[PoolSpec, ...] = ()
        """Pools for which this process has seen to streams."""
        self.problem = "nothing was looked at yet"
        """What keeps everything from being in place; empty: it is."""

    async def look(self) -> None:
        """Look once, and make what misses as far as that can be done now; `problem` says what is left."""
        try:
            self.problem = await self._look()
        except ServiceError as exc:
            self.problem = str(exc)

    async def _look(self) -> str:
        root = await self.look_at_secrets()
        if missing := await asyncio.to_thread(monitor.what_is_missing, self._monitors()):
            return f"servers: {missing}"
        return await self._keep_pools(root)

    async def look_at_secrets(self) -> Root:
        """Make or renew keys, certificates and credentials; return the root of trust.

        Raises:
            ServiceError: not all is there now.
        """
        settings, valid_s = self._settings, self._settings.valid_s
        here = settings.namespace
        root = contents.read_root(
            await self._keep("Secret", here, ROOT, lambda h: contents.root(h, time.time()))
        )
        addresses = await asyncio.to_thread(self._resolve, contents.EDGE_SERVICE)
        if not addresses:
            raise NotFound(f"Service {contents.EDGE_SERVICE} has no address yet")
        authority = {contents.AUTHORITY: root.authority.certificate.encode()}
        for space in (here, settings.nodes_namespace, settings.pods_namespace):
            await self._keep("ConfigMap", space, AUTHORITY, lambda _: authority)
        made = await self._keep(
            "Secret", here, "nats", lambda h: contents.servers(h, root, settings, addresses)
        )
        await self._roll("StatefulSet", contents.STATEFUL_SET, made[COUNT])
        await self._keep("Secret", here, "client-edge", lambda _: contents.edge(root))
        await self._keep(
            "Secret", here, "pool-manager", lambda h: contents.pool_managers(h, root, valid_s)
        )
        await self._keep(
            "Secret",
            settings.nodes_namespace,
            "checkpointer",
            lambda h: contents.checkpointers(h, root, valid_s),
        )
        await self._keep(
            "Secret",
            settings.pods_namespace,
            "agent-sandbox-enroller",
            lambda h: contents.enrollers(h, root, valid_s),
        )
        await self._keep(
            "Secret",
            settings.pods_namespace,
            "agent-sandbox-keeper",
            lambda h: contents.keepers(h, root, valid_s),
        )
        tenants = {name: await self._keep_tenant(root, name) for name in settings.tenants}
        await self._keep("Secret", here, "gateway", lambda _: contents.gateways(tenants))
        return root

    async def _keep_tenant(self, root: Root, name: str) -> Data:
        return await self._keep(
            "Secret",
            self._settings.namespace,
            f"tenant-{name}",
            lambda held: contents.tenant(held, root, name),
        )

    async def _keep_pools(self, root: Root) -> str:
        """See to streams for the pools that are declared, then let pool-managers have them; return what is wrong."""
        here = self._settings.namespace
        declared = await self._objects.read(Place("ConfigMap", here, DECLARED_POOLS))
        if declared is None:
            return f"no ConfigMap {DECLARED_POOLS} declares pools"
        text = declared.data.get(POOLS_KEY, b"")
        try:
            pools = parse_pools(text.decode())
        except (InvalidMessage, UnicodeDecodeError) as exc:
            return f"ConfigMap {DECLARED_POOLS}: {exc}. Those before stay in force"
        if self._applied != pools:
            await self._streams(root).provision(pools)
        in_force = await self._keep(
            "ConfigMap",
            here,
            POOLS_IN_FORCE,
            lambda h: contents.counted(h, {POOLS_KEY: text}, pools),  # a comment replaces no pod
        )
        await self._roll("Deployment", "pool-manager", in_force[COUNT])
        if self._applied != pools:
            log.info("pools.applied", pools=[pool.name for pool in pools])
            self._applied = pools
            await self._streams(root).spread_leaders(pools)
        return ""

    def _streams(self, root: Root) -> Streams:
        return Streams(
            contents.server_urls(self._settings),
            root.identity.signer,
            root.created_ms,
            Tls(ca_pem=root.authority.certificate),
        )

    def _monitors(self) -> dict[str, tuple[str, int]]:
        names = contents.server_names(self._settings)
        return {name: (f"{name}.{contents.HEADLESS}", contents.PORTS.monitor) for name in names}

    async def _keep(
        self, kind: Keeper, namespace: str, name: str, make: Callable[[Mapping[str, bytes]], Data]
    ) -> Data:
        """Have an object hold what `make` makes of what it holds; return that."""
        place = Place(kind, namespace, name)
        held = await self._objects.read(place)
        wanted = make({} if held is None else held.data)
        if held is None or held.data != wanted:
            await self._objects.write(place, wanted, None if held is None else held.version)
            log.info("object.written", object=str(place), new=held is None)
        return wanted

    async def _roll(self, kind: Workload, name: str, count: bytes) -> None:
        """Have a workload's pods replaced if they were made under another count. The first ones have no mark."""
        here, wanted = self._settings.namespace, count.decode()
        mark = await self._objects.template_mark(kind, here, name)
        if mark is None:
            raise NotFound(f"no {kind} {name} in {here}")
        if (mark or "1") != wanted:
            await self._objects.mark_template(kind, here, name, wanted)
            log.info("workload.rolled", kind=kind, name=name, generation=wanted)
