"""Sees to the volumes of pools that have one: the claim, the keepers, and what is to be said where something misses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Set

from pool_manager.core.dead_nodes import OURS, OUT_OF_SERVICE, Blocked, holders, is_named
from pool_manager.core.kube_cluster import Cluster
from pool_manager.core.volume_state import LOOK_S, judge, next_look_s
from pool_manager.core.world import World
from pool_manager.ports.volumes import Nodes, Volumes
from shared import logs
from shared.errors import Forbidden, ServiceError
from shared.kube.views import NodeView

log = logs.get(__name__)

DISMISS_S = 600.0
"""Keepers of a pool that is not declared: perhaps it is, and this pool-manager is about to be replaced by one that knows."""
BY_HAND = f"kubectl taint node {{node}} {OUT_OF_SERVICE}={OURS}:NoExecute{{end}}, or kubectl apply -k deploy/out-of-service"


class VolumeKeeping:
    """One pool-manager's part of it: all of them look, one acts."""

    def __init__(self, world: World, cluster: Cluster, volumes: Volumes, nodes: Nodes) -> None:
        """Tell `cluster` what is wrong with whose volume."""
        self.on_due: Callable[[], None] = lambda: None
        """Called when pods may be asked for that could not start before."""
        self._world = world
        self._cluster = cluster
        self._volumes = volumes
        self._nodes = nodes
        self._strange: dict[str, float] = {}
        """Pools that are not declared here and have keepers, since when."""
        self._marked: set[str] = set()
        """Nodes to which something was done in this look."""

    async def run(self) -> None:
        """Look until cancelled."""
        wait_s = LOOK_S
        while True:
            before = dict(self._cluster.volumes)
            try:
                await self._look()
            except ServiceError as exc:
                log.warning("volumes.not_looked_at", code=exc.code, error=str(exc))
            wait_s = next_look_s(wait_s, before, self._cluster.volumes)
            self._go_on(before.keys() - self._cluster.volumes.keys())
            await asyncio.sleep(wait_s)

    def _go_on(self, mended: Set[str]) -> None:
        """Have pods asked for at once whose pools' volumes are there again."""
        for name in mended & self._world.pools.keys():
            slots = self._world.pools[name]
            slots.refusals, slots.held_until = 0, float("-inf")
        if mended:
            self.on_due()

    async def _look(self) -> None:
        claims, keepers = await self._volumes.claims(), await self._volumes.keepers()
        template = self._cluster.template
        acts = self._world.peers.is_first("volumes", time.monotonic())
        pools = {p: s.spec for p, s in self._world.pools.items() if s.spec.on_volume}
        on_one = {name for name, pool in pools.items() if pool.on_one_node}
        self._marked.clear()
        holding = await self._volumes.keeper_nodes() if on_one else {}
        for name, pool in pools.items():
            verdict = judge(template, pool, claims.get(name), keepers.get(name))
            self._say(name, verdict.problem)
            if name in on_one:
                await self._free(name, holding.get(name, set()), acts=acts)
            for act in verdict.acts if acts else ():
                log.info("volume.seen_to", pool=name, act=act)
                try:
                    if act == "create claim":
                        await self._volumes.claim(pool)
                    else:
                        await self._volumes.keep(pool, keepers.get(name))
                except ServiceError as exc:
                    self._say(name, f"its volume: {exc}")
        if acts:  # also where the pool that it was for is declared no more
            await self._take_back()
        now = time.monotonic()
        strange = keepers.keys() - pools.keys()
        self._strange = {name: self._strange.get(name, now) for name in strange}
        for name in strange if acts else ():
            if now - self._strange[name] > DISMISS_S:
                log.info("keepers.dismissed", pool=name)
                await self._volumes.dismiss(keepers[name])

    async def _free(self, pool: str, nodes: set[str], *, acts: bool) -> None:
        """See to the nodes that may keep a pool's volume: say of each that is dead what it waits for, and do what may be done.

        Args:
            pool: whose volume is attached to one node at a time.
            nodes: those with keepers.
            acts: this pool-manager is the one to act.
        """
        cluster = self._cluster
        nodes = nodes | {pod.node for pod in cluster.pods.values() if pod.pool == pool}
        judged = dict(cluster.nodes)
        if not judged:
            return  # they have not been read yet
        for blocked in holders(judged, nodes, cluster.heard, cluster.dead):
            if blocked.act == "back":
                continue
            self._say(pool, f"its volume: {blocked.why}")
            if blocked.act is None or not acts or not cluster.hears:
                continue  # who was deaf a moment ago can't tell that nothing on the node speaks
            if wrong := await self._mark(judged[blocked.node], blocked):
                self._say(pool, f"its volume: {blocked.why}{wrong}")

    async def _take_back(self) -> None:
        """Take nodes into service that are alive again, whatever they hold."""
        cluster = self._cluster
        named = {name: node for name, node in cluster.nodes.items() if is_named(node)}
        for blocked in holders(named, named, cluster.heard, cluster.dead):
            if blocked.act == "back":
                await self._mark(named[blocked.node], blocked)

    async def _mark(self, node: NodeView, blocked: Blocked) -> str:
        """Do to a node, as it was when it was judged, what is to be done, once in a look; return why it was not done."""
        assert blocked.act is not None
        if blocked.node in self._marked:
            return ""  # for another pool, whose volume it has, too
        try:
            await self._nodes.mark(node, blocked.act)
        except ServiceError as exc:
            log.warning("node.not_marked", node=blocked.node, act=blocked.act, error=str(exc))
            if not isinstance(exc, Forbidden):
                return f": {exc}"
            end = "" if blocked.act == "out" else "-"
            return (
                f", but pool-managers may not: {BY_HAND.format(node=blocked.node, end=end)} ({exc})"
            )
        self._marked.add(blocked.node)
        log.warning("node.marked", node=blocked.node, act=blocked.act, why=blocked.why)
        return ""

    def _say(self, pool: str, problem: str) -> None:
        if problem:
            self._cluster.volumes[pool] = problem
        else:
            self._cluster.volumes.pop(pool, None)
