"""Watches a Kubernetes cluster: tells the world what ended, keeps its one heartbeat, clears away what is of no use."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import TypeVar

import msgspec

from pool_manager.core.kube_cluster import Cluster, Gone
from pool_manager.core.kube_forms import outdated
from pool_manager.core.kube_pods import Pod
from pool_manager.core.kube_silence import is_heard, is_silent, misses_nothing
from pool_manager.core.world import World
from pool_manager.loops.hands import Hands
from pool_manager.ports.kube import Remover, Watches
from shared import logs
from shared.kube.events import Changed, Listed, Lost, Removed, Watched
from shared.kube.views import NodeView, PodView, RuntimeClassView

log = logs.get(__name__)

TICK_S = 0.5
LATE_S = 0.75
"""A look that comes later than this says that the process stood still: what was said meanwhile waits to be heard."""
USELESS_S = 15.0
"""A pod that fills no slot and has no session is ended after so long: its slot's record may still be on its way."""
BACK_OFF_MAX_S = 60.0
"""Longest wait of a slot whose pods end again and again before they work: each start costs the API server some writes."""
CALM_S = 0.15
"""So long after the last claim a pool's refill begins: a pod's start takes a node's processors for most of a second."""
AGAIN_S = 5.0
"""Between two orders to end the same pod."""


class Times(msgspec.Struct, frozen=True):
    """Bounds that an operator may set, seconds."""

    pending_s: float = 300.0
    fence_s: float = 4.0


V = TypeVar("V", NodeView, RuntimeClassView)


class ClusterWatcher:
    """One pool-manager's view of a cluster."""

    def __init__(
        self, world: World, cluster: Cluster, watches: Watches, remover: Remover, times: Times
    ) -> None:
        """Tell `world`; keep `cluster`."""
        self.hands = Hands("cluster", count=8, pending_max=8192)
        self.on_due: Callable[[], None] = lambda: None
        """Called when a slot wants a pod by what was seen."""
        self.on_lost: Callable[[], None] = lambda: None
        """Called when an owner of a session was seen to be gone."""
        self._world = world
        self._cluster = cluster
        self._watches = watches
        self._remover = remover
        self._times = times
        self._useless: dict[str, float] = {}
        self._asked: dict[str, float] = {}
        self._ticked = time.monotonic()
        for slots in world.pools.values():
            slots.pace.back_off_max_s, slots.pace.calm_s = BACK_OFF_MAX_S, CALM_S

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch_pods())
            group.create_task(self._watch("nodes", self._watches.nodes(), self._cluster.nodes))
            group.create_task(
                self._watch("runtimes", self._watches.runtimes(), self._cluster.runtimes)
            )
            group.create_task(self._tick())

    def made(self, view: PodView) -> None:
        """A pod was made: the watch will say so, too, but the plan must not take it for lost before."""
        if view.metadata.name not in self._cluster.pods:
            self._ended(self._cluster.see_pod(view, time.monotonic()))

    async def _watch_pods(self) -> None:
        cluster = self._cluster
        async for event in self._watches.pods():
            now = time.monotonic()
            cluster.lost("pods", event.why if isinstance(event, Lost) else "")
            match event:
                case Listed(views):
                    for gone in cluster.list_pods(views, now):
                        self._ended(gone)
                    self._beat(now)
                case Changed(view):
                    self._ended(cluster.see_pod(view, now))
                case Removed(view):
                    # What its last state says goes before: how its processes ended.
                    self._ended(cluster.see_pod(view, now))
                    self._ended(cluster.remove_pod(view.metadata.name, view.metadata.uid))

    async def _watch(
        self, what: str, events: AsyncIterator[Watched[V]], copy: dict[str, V]
    ) -> None:
        async for event in events:
            self._cluster.lost(what, event.why if isinstance(event, Lost) else "")
            match event:
                case Listed(views):
                    copy.clear()
                    copy.update({view.metadata.name: view for view in views})
                case Changed(view):
                    copy[view.metadata.name] = view
                case Removed(view):
                    copy.pop(view.metadata.name, None)

    def _ended(self, gone: Gone | None) -> None:
        if gone is None:
            return
        told, world = gone.gone, self._world
        log.info("pod.gone", pod=told.pod, node=told.node, cause=told.cause, detail=told.detail)
        if world.on_gone(gone.pool, told, time.monotonic()):
            self.on_due()
        if world.table.owned_by(told.pod) is not None:
            self.on_lost()

    async def _tick(self) -> None:
        while True:
            now = time.monotonic()
            late, self._ticked = now - self._ticked > TICK_S + LATE_S, now
            self._cluster.hears = False
            if self._world.hearing.connected and not late:
                on = self._cluster.pods_on()
                self._look_for_dead_nodes(on, now)
                self._look_who_speaks(on, now)
            for pod in self._cluster.overdue(self._times.pending_s, now):
                why = pod.stuck or f"it did not start within {self._times.pending_s:.0f} s"
                self._ended(self._cluster.give_up(pod.name, "start_failed", why))
            self._look_for_useless(now)
            self._look_for_outdated(now)
            self._beat(now)
            self._clear_away(now)
            await asyncio.sleep(TICK_S)

    def _look_for_dead_nodes(self, on: dict[str, list[Pod]], now: float) -> None:
        before = self._cluster.dead
        judge = partial(is_silent, self._world, self._times.fence_s, now=now)
        for name in sorted(self._cluster.judge_nodes(judge, on)):
            pods = self._cluster.living(name)
            log.warning("node.dead", node=name, pods=len(pods), silent_s=self._times.fence_s)
            for pod in pods:
                self._ended(self._cluster.give_up(pod.name, "node_lost", ""))
        self._world.dead_nodes = self._cluster.avoid
        for name in sorted(before - self._cluster.dead):
            log.warning("node.heard_again", node=name)

    def _look_who_speaks(self, on: dict[str, list[Pod]], now: float) -> None:
        world, fence_s = self._world, self._times.fence_s
        speak = [node for node, pods in on.items() if is_heard(world, fence_s, node, pods, now)]
        self._cluster.heard = frozenset(speak)
        self._cluster.hears = bool(speak) and misses_nothing(world, fence_s, now)

    def _look_for_useless(self, now: float) -> None:
        """Find pods that fill no slot and have no session: of a former declaration, or made by an order thought lost."""
        useless = {pod.name for pod in self._cluster.living() if not self._is_used(pod)}
        for name in self._useless.keys() - useless:
            del self._useless[name]
        for name in useless:
            since = self._useless.setdefault(name, now)
            if now - since > USELESS_S and self._world.hearing.connected:
                self._ended(self._cluster.give_up(name, "deleted", "no slot wants it"))

    def _look_for_outdated(self, now: float) -> None:
        """Replace warm pods of a former form, few at a time: sessions keep theirs until they end."""
        world, cluster = self._world, self._cluster
        for pool, slots in world.pools.items():
            if not world.peers.is_first(f"form/{pool}", now):
                continue
            forms = cluster.forms(slots.spec)
            for pod in outdated(slots, cluster.living(), forms, world.peers, now):
                log.info("pod.outdated", pod=pod.name, node=pod.node)
                self.hands.offer(pod.name, partial(self._remover.retire, pod.name, pod.uid))

    def _is_used(self, pod: Pod) -> bool:
        slots = self._world.pools.get(pod.pool)
        named = slots is not None and slots.has_pod(pod.name)
        return named or self._world.table.owned_by(pod.name) is not None

    def _beat(self, now: float) -> None:
        beat = self._cluster.beat()
        if beat is not None and self._world.on_node(beat, now):
            self.on_due()
            self.on_lost()
        nodes = len(self._cluster.nodes.keys() - self._cluster.dead)
        for slots in self._world.pools.values():
            slots.stuck = self._cluster.stuck(slots.spec.name, self._times.pending_s, now)
            slots.pace.beside_claims = max(nodes, 1)  # one on each node, as Kubernetes spreads them

    def _clear_away(self, now: float) -> None:
        """Have the objects removed of pods that are over: names and quotas are free again."""
        cluster = self._cluster
        for name in [name for name, at in self._asked.items() if now - at > AGAIN_S]:
            del self._asked[name]
        needed = self._world.table.pods_with_files()
        for pod, forced in cluster.over(needed):
            if pod.name not in self._asked and self._world.peers.is_first(pod.name, now):
                remove = partial(self._remover.remove, pod.name, pod.uid, forced=forced)
                if self.hands.offer(pod.name, remove):
                    self._asked[pod.name] = now
