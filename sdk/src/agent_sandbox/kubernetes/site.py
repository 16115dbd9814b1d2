"""A system that runs on Kubernetes, for one benchmark, test or run of the chaos lab: reached without detours, watched with all rights.

Whoever runs it needs a kubeconfig of an administrator: it reads the root of trust, declares pools beside those that are
there, and opens the network policies for its own address. All of that is taken back at the end.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence, Set
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from agent_sandbox import Client, ClientOptions
from agent_sandbox.embedded.bring_up import ask_pools
from agent_sandbox.embedded.pools import toml_lines
from agent_sandbox.kubernetes.names import (
    CA_KEY,
    CREDENTIAL_KEY,
    EDGE_PORT,
    EDGE_SERVICE,
    POOL_LABEL,
    POOLS_KEY,
    POOLS_MAP,
    Namespaces,
    namespaces,
    tenant_secret,
)
from agent_sandbox.kubernetes.reach import Place, read_secret
from agent_sandbox.kubernetes.servers import addresses, connect_admin, server_ips
from agent_sandbox.places import TENANT
from shared.bus import Bus
from shared.errors import ServiceError, Unavailable
from shared.kubectl import Kubectl, Object, is_ready, wait_ready
from shared.pools import PoolSpec, parse_pools
from shared.views import PoolView

READY_S = 180.0
WARM_S = 300.0
POLL_S = 0.5
GATEWAY = "gateway"
TOKEN_KEY = "token"  # noqa: S105 - a name
OPEN_POLICY = "measured-from-outside"
"""NetworkPolicy that lets this machine reach servers, edges and gateways."""


Say = Callable[[str], None]


class Site:
    """A running system."""

    def __init__(
        self, kubectl: Kubectl, spaces: Namespaces, admin: Bus, secrets: Path, say: Say
    ) -> None:
        """Use `open_site`."""
        self.kubectl = kubectl
        self.spaces = spaces
        self.admin = admin
        """A connection that may do everything: whoever watches looks on through it."""
        self._secrets, self._say = secrets, say

    def edges(self) -> tuple[str, ...]:
        """Return the clients' ways in, now: each restarted server has another address."""
        return addresses(self.kubectl, self.spaces, EDGE_PORT)

    def service(self) -> tuple[str, ...]:
        """Return the way in that stays while servers are replaced, where this machine reaches Services."""
        found = self.kubectl.get("service", EDGE_SERVICE, namespace=self.spaces.system)
        return (f"tls://{found['spec']['clusterIP']}:{EDGE_PORT}",)

    def client(self, servers: tuple[str, ...] = ()) -> Client:
        """Return a client, not yet connected; of the edges as they are now unless others are named."""
        return Client(
            ClientOptions(
                servers=servers or self.edges(),
                credential=self._secrets / CREDENTIAL_KEY,
                ca=self._secrets / CA_KEY,
                server_name=EDGE_SERVICE,
            )
        )

    def gateway(self) -> tuple[str, int]:
        """Return the address of the gateways' Service, where this machine reaches Services; they know names, not that."""
        spec = self.kubectl.get("service", GATEWAY, namespace=self.spaces.system)["spec"]
        return spec["clusterIP"], spec["ports"][0]["port"]

    def web_client(self, address: str) -> Client:
        """Return a client through the gateways at an address, not yet connected."""
        secret = self.kubectl.get("secret", tenant_secret(TENANT), namespace=self.spaces.system)
        token = base64.b64decode(secret["data"][TOKEN_KEY]).decode()
        return Client(ClientOptions(servers=(address,), token=token))

    async def second(self) -> Bus:
        """Return another connection with all rights, to another server where there is one; the caller closes it."""
        return await connect_admin(
            self.kubectl, self.spaces, "outside-2", rather_not=self.admin.server
        )

    async def view(self, pool: str) -> PoolView:
        """Return how a pool is.

        Raises:
            Unavailable: the pool-managers do not know it.
        """
        answer = await ask_pools(self.admin, timeout_s=5.0)
        for view in answer.pools:
            if view.pool == pool:
                return view
        raise Unavailable(f"pool {pool}: the pool-managers do not know it")

    async def wait_warm(self, pool: str, count: int, *, within_s: float = WARM_S) -> str:
        """Wait until exactly so many workers wait warm, none in start, none bound; return their isolation class.

        Raises:
            Unavailable: they do not become as many in time; with the pool-managers' reason.
        """
        until = time.monotonic() + within_s
        said, told = "no answer", 0.0
        while True:
            with suppress(ServiceError):
                view = await self.view(pool)
                if view.warm == count and not view.starting and not view.bound:
                    return "+".join(sorted(name for name, pods in view.classes.items() if pods))
                said = (
                    f"{view.warm} of {count} workers warm, {view.starting} starting, "
                    f"{view.bound} bound {view.reason}"
                )
            if time.monotonic() > until:
                raise Unavailable(f"pool {pool}: {said} after {within_s:g} s")
            if time.monotonic() - told > 10:
                told = time.monotonic()
                self._say(f"pool {pool}: {said}")
            await asyncio.sleep(POLL_S)

    def worker_nodes(self, pool: str | None = None) -> dict[str, str]:
        """Return pod -> node of the worker pods that are there, of one pool or of all, as the API server has it."""
        labels = None if pool is None else f"{POOL_LABEL}={pool}"
        return {
            pod["metadata"]["name"]: pod["spec"].get("nodeName", "")
            for pod in self.kubectl.list("pods", namespace=self.spaces.pods, labels=labels)
        }


@asynccontextmanager
async def open_site(
    pools: Sequence[PoolSpec] = (), *, context: str | None = None, say: Say = lambda _: None
) -> AsyncIterator[Site]:
    """Reach the system of the kubeconfig's context, with these pools beside its own; all is taken back at the end.

    Raises:
        Unavailable: no system is there, or it does not become ready.
        ServiceError: it can't be reached, or not with these rights.
    """
    kubectl, spaces = Kubectl(context=context), namespaces()
    if await asyncio.to_thread(kubectl.find, "namespace", spaces.system) is None:
        raise Unavailable(
            f"no namespace {spaces.system}: set the system up first (kubectl apply -k deploy/overlays/dev)"
        )
    services = (spaces.system, spaces.nodes)
    await asyncio.to_thread(wait_ready, kubectl, services, within_s=READY_S, say=say)
    with (
        tempfile.TemporaryDirectory(prefix="agent-sandbox-site-") as folder,
        opened_policies(kubectl, spaces),
    ):
        secrets = Path(folder)
        place = Place(kubectl=kubectl, namespace=spaces.system, tenant=TENANT)
        for name, content in read_secret(place).items():
            (secrets / name).touch(mode=0o600)
            (secrets / name).write_bytes(content)
        async with declared(kubectl, spaces, pools):
            admin = await connect_admin(kubectl, spaces, "outside")
            try:
                yield Site(kubectl, spaces, admin, secrets, say)
            finally:
                await admin.close()


@contextmanager
def opened_policies(kubectl: Kubectl, spaces: Namespaces) -> Iterator[None]:
    """Let this machine's address through to servers, edges and gateways while the block lasts."""
    ips = server_ips(kubectl, spaces)
    if not ips:
        raise Unavailable(f"no NATS server's pod in {spaces.system} is ready")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as route:
        route.connect((ips[0], 9))  # sends nothing: the kernel says from which address it would
        source = route.getsockname()[0]
    policy: Object = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": f"{OPEN_POLICY}-{os.getpid()}", "namespace": spaces.system},
        "spec": {
            "podSelector": {},
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"ipBlock": {"cidr": f"{source}/32"}}]}],
        },
    }
    kubectl.run("apply", "-f", "-", stdin=json.dumps(policy))
    try:
        yield
    finally:
        name = policy["metadata"]["name"]
        kubectl.run("delete", "networkpolicy", name, "-n", spaces.system, "--ignore-not-found")


@asynccontextmanager
async def declared(
    kubectl: Kubectl, spaces: Namespaces, pools: Sequence[PoolSpec]
) -> AsyncIterator[None]:
    """Declare these pools beside those that are there while the block lasts.

    Raises:
        Unavailable: the services do not take them over in time.
    """
    if not pools:
        yield
        return
    names = {pool.name for pool in pools}
    await asyncio.to_thread(declare, kubectl, spaces, (*others(kubectl, spaces, names), *pools))
    try:
        yield
    finally:
        await asyncio.shield(asyncio.to_thread(withdraw, kubectl, spaces, names))


def withdraw(kubectl: Kubectl, spaces: Namespaces, names: Set[str]) -> None:
    """Take pools back; what others have declared meanwhile stays.

    Raises:
        Unavailable: the pool-managers do not take that over in time.
    """
    declare(kubectl, spaces, others(kubectl, spaces, names))


def others(kubectl: Kubectl, spaces: Namespaces, names: Set[str]) -> tuple[PoolSpec, ...]:
    """Return the pools that are declared, without these."""
    there = kubectl.get("configmap", POOLS_MAP, namespace=spaces.system)
    return tuple(pool for pool in parse_pools(there["data"][POOLS_KEY]) if pool.name not in names)


def declare(kubectl: Kubectl, spaces: Namespaces, pools: Sequence[PoolSpec]) -> None:
    """Write the pools' ConfigMap, and wait until the pool-managers have taken it over.

    Raises:
        Unavailable: they do not in time.
    """
    patch: Any = {"data": {POOLS_KEY: "".join(map(table_of, pools))}}
    before = _generation(kubectl, spaces)
    words = ("patch", "configmap", POOLS_MAP, "-n", spaces.system, "--type=merge", "-p")
    said = kubectl.run(*words, json.dumps(patch))
    if "no change" in said:
        return
    until = time.monotonic() + READY_S
    while time.monotonic() < until:
        manager = kubectl.get("deployment", "pool-manager", namespace=spaces.system)
        if manager["metadata"]["generation"] > before and is_ready(manager):
            return
        time.sleep(POLL_S)
    raise Unavailable(f"the pool-managers did not take the pools over within {READY_S:g} s")


def table_of(pool: PoolSpec) -> str:
    """Return a pool's declaration, without what is by default: services there may be older than this tree."""
    return "[[pool]]\n" + toml_lines(_told(pool))


def _told(part: Any) -> Any:
    """Return a struct's fields by their names, and those of structs in it, without what is by default."""
    if isinstance(part, tuple):
        return [_told(each) for each in part]
    if not isinstance(part, msgspec.Struct):
        return part
    return {
        field.name: _told(value)
        for field in msgspec.structs.fields(part)
        if (value := getattr(part, field.name)) not in (field.default, None)
    }


def _generation(kubectl: Kubectl, spaces: Namespaces) -> int:
    found = kubectl.get("deployment", "pool-manager", namespace=spaces.system)
    return int(found["metadata"]["generation"])
