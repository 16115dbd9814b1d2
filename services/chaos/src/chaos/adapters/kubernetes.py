"""The system under test on Kubernetes: one that runs, of the kubeconfig's context, with a pool of the lab's own (see `KubeSite`)."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial

import msgspec

from agent_sandbox import Client
from agent_sandbox.embedded.bring_up import ask_pools
from agent_sandbox.kubernetes.names import SERVERS_LABEL
from agent_sandbox.kubernetes.site import Site, open_site
from chaos.core.driver import Templates, words_of
from chaos.ports.kube_site import KubeNode
from shared.bus import Bus
from shared.errors import ServiceError, Unavailable
from shared.kube_names import node_token
from shared.kubectl import Kubectl, Object
from shared.pools import PoolSpec
from shared.testing.relay import Relay
from shared.views import PoolsAnswer

ASK_S = 3.0
COMMAND_S = 50.0
"""Longest run of a command that takes a node down or brings it back."""
LAST_S = 60.0
"""Longest wait for what is still being done to a node, before it is brought back."""
NOW = ("--grace-period=0", "--force", "--wait=false", "--ignore-not-found")
"""Ends a pod without asking its processes."""

Say = Callable[[str], None]


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """Which system, and how its nodes are failed."""

    context: str | None = None
    """Of the kubeconfig; None: its current one."""
    driver: Templates | None = None
    """None: nodes can't be touched; their pods are deleted, and no new ones come to them meanwhile."""


class KubeCluster:
    """A system that runs."""

    def __init__(self, site: Site, second: Bus, relay: Relay, now: Callable[[], float]) -> None:
        """Use `on_kubernetes`."""
        self.admin, self.second = site.admin, second
        self._site, self._now = site, now
        host, port = site.gateway()
        self._gateway = relay.link(port, host)  # they know themselves by names, not by this address
        self.driver: Templates | None = None
        self.pool: str | None = None
        """Whose workers are counted: a node with none of them is no victim; None: of all pools."""
        self._down: set[str] = set()
        self._doing: dict[str, asyncio.Future[None]] = {}
        """By node: what was done to it last. It runs in a thread, and to its end though nobody waits for it any more."""

    @property
    def fails_nodes(self) -> bool:
        """Whether nodes themselves can be failed; else all that runs on them is."""
        return self.driver is not None

    def now(self) -> float:
        """Return the injector's clock."""
        return self._now()

    async def pools(self) -> PoolsAnswer:
        """Return how pools and nodes are.

        Raises:
            ServiceError: nobody tells.
        """
        return await ask_pools(self.admin, timeout_s=ASK_S)

    async def wait_warm(self, pool: str, count: int, say: Say) -> str:
        """Wait until exactly so many workers wait; return their isolation class.

        Raises:
            Unavailable: they do not in time.
        """
        say(f"waiting for {count} workers")
        return await self._site.wait_warm(pool, count)

    def client(self) -> Client:
        """Return a client over NATS, not yet connected: by the edges' Service, which stays, and the edges themselves."""
        return self._site.client((*self._site.service(), *self._site.edges()))

    def web_client(self) -> Client:
        """Return a client through the gateways, not yet connected."""
        return self._site.web_client(f"http://127.0.0.1:{self._gateway.port}")

    async def leaders(self, *streams: str) -> dict[str, str]:
        """Return the server that leads each of the streams; those whose leader is not known are left out."""
        found: dict[str, str] = {}
        for stream in streams:
            with suppress(ServiceError):
                info = await self.admin.js_api(f"STREAM.INFO.{stream}", {}, timeout_s=ASK_S)
                if leader := (info.get("cluster") or {}).get("leader"):
                    found[stream] = leader
        return found

    # --- faults ------------------------------------------------------------------------------------------------------

    async def nodes(self) -> list[KubeNode]:
        """Return the nodes that are ready, but for those that were taken down."""
        return await asyncio.to_thread(self._nodes)

    def _nodes(self) -> list[KubeNode]:
        kubectl, spaces = self._site.kubectl, self._site.spaces
        workers = list(self._site.worker_nodes(self.pool).values())
        servers = kubectl.list("pods", namespace=spaces.system, labels=SERVERS_LABEL)
        return [
            KubeNode(
                name=name,
                token=node_token(name),
                workers=workers.count(name),
                servers=tuple(
                    pod["metadata"]["name"]
                    for pod in servers
                    if pod["spec"].get("nodeName") == name
                ),
            )
            for node in kubectl.list("nodes")
            if is_ready(node) and (name := node["metadata"]["name"]) not in self._down
        ]

    async def down(self, node: str) -> None:
        """Take a node down, or all that runs on it."""
        self._down.add(node)
        driver = self.driver
        await self._do(node, partial(run_command, driver.down) if driver else self._empty)

    async def up(self, node: str) -> None:
        """Bring a node back, once it is down as a whole; nothing where it is up."""
        if node not in self._down:
            return
        driver = self.driver
        await self._do(node, partial(run_command, driver.up) if driver else self._fill)
        self._down.discard(node)

    async def _do(self, node: str, act: Callable[[str], None]) -> None:
        """Do something to a node, after what is still being done to it."""
        if node in self._doing:
            await asyncio.wait({self._doing[node]}, timeout=LAST_S)
            if not self._doing[node].done():
                raise Unavailable(f"{node}: what was done to it last is still under way")
        self._doing[node] = asyncio.ensure_future(asyncio.to_thread(act, node))
        await asyncio.shield(self._doing[node])

    async def up_all(self) -> None:
        """Bring all nodes back that are down, whatever one of them says.

        Raises:
            ServiceError: of the last one that could not be.
        """
        failed: ServiceError | None = None
        for node in sorted(self._down):
            try:
                await self.up(node)
            except ServiceError as exc:
                failed = exc
        if failed is not None:
            raise failed

    def _empty(self, node: str) -> None:
        kubectl = self._site.kubectl
        kubectl.run("cordon", node)
        for namespace in self._site.spaces:
            found = kubectl.list("pods", namespace=namespace)
            names = [
                pod["metadata"]["name"] for pod in found if pod["spec"].get("nodeName") == node
            ]
            if names:
                kubectl.run("delete", "pods", *names, "-n", namespace, *NOW)

    def _fill(self, node: str) -> None:
        self._site.kubectl.run("uncordon", node)

    async def end_pods(self, selector: str) -> list[str]:
        """End one pod of ours that a label selects, without grace; return its name, or nothing where there is none."""
        return await asyncio.to_thread(self._end_pod, selector)

    def _end_pod(self, selector: str) -> list[str]:
        kubectl, spaces = self._site.kubectl, self._site.spaces
        for namespace in (spaces.system, spaces.nodes):
            pods = kubectl.list("pods", namespace=namespace, labels=selector)
            running = sorted(pod["metadata"]["name"] for pod in pods if is_running(pod))
            if running:
                kubectl.run("delete", "pods", running[0], "-n", namespace, *NOW)
                return running[:1]
        return []


def is_ready(node: Object) -> bool:
    """Return whether a node is ready."""
    conditions = node.get("status", {}).get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def is_running(pod: Object) -> bool:
    """Return whether a pod runs and was not told to end."""
    is_told = "deletionTimestamp" in pod["metadata"]
    return pod.get("status", {}).get("phase") == "Running" and not is_told


def run_command(template: str, node: str) -> None:
    """Run a driver's command for a node.

    Raises:
        Unavailable: it failed, or took too long; with its last words.
    """
    words = words_of(template, node)
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=COMMAND_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise Unavailable(f"{' '.join(words)}: {exc}") from exc
    if done.returncode:
        said = (done.stderr or done.stdout).strip()[-400:]
        raise Unavailable(f"{' '.join(words)}: exit code {done.returncode}: {said}")


@asynccontextmanager
async def on_kubernetes(
    where: Where, pool: PoolSpec, now: Callable[[], float], say: Say
) -> AsyncIterator[KubeCluster]:
    """Reach a system, with a pool of the lab's own; at the end the pool is taken back, and every node is up.

    Args:
        where: which system.
        pool: the lab's.
        now: the injector's clock.
        say: told how far it is.

    Raises:
        ServiceError: there is no system, it is not ready, or a node could not be brought back.
    """
    began = time.monotonic()
    async with open_site((pool,), context=where.context, say=say) as site:
        say(f"the system is reached after {time.monotonic() - began:.1f} s")
        async with AsyncExitStack() as stack:
            second, relay = await site.second(), Relay()
            stack.push_async_callback(second.close)
            stack.callback(relay.close)
            cluster = await asyncio.to_thread(KubeCluster, site, second, relay, now)
            cluster.driver, cluster.pool = where.driver, pool.name
            try:
                yield cluster
            except BaseException:
                try:
                    await asyncio.shield(cluster.up_all())
                except ServiceError as exc:  # the run's own error tells more
                    say(f"a node could not be brought back: {exc}")
                raise
            await asyncio.shield(cluster.up_all())


def count_nodes(context: str | None) -> int:
    """Return how many nodes are ready.

    Raises:
        ServiceError: the API server does not answer.
    """
    return sum(map(is_ready, Kubectl(context=context).list("nodes")))
