"""Joins a pool-manager to a Kubernetes cluster, where that runs its pods: a part of `app`, imported only then."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from pool_manager.adapters.files import read_template
from pool_manager.adapters.kube_pods import KubePods, KubeProofs, KubeWatches
from pool_manager.adapters.kube_volumes import BusKeepers, KubeNodes, KubeVolumes
from pool_manager.core.kube_cluster import Cluster
from pool_manager.core.pod_template import PodTemplate
from pool_manager.core.world import World
from pool_manager.loops.enrol import Enroller
from pool_manager.loops.keep_volumes import VolumeKeeping
from pool_manager.loops.watch_cluster import ClusterWatcher, Times
from pool_manager.ports import Mint, Replies, SlotStore
from pool_manager.settings import PoolSettings
from shared import subjects
from shared.bus import Bus, Subscription
from shared.enrolment import AUDIENCE
from shared.errors import InvalidMessage
from shared.kube.client import Access, KubeApi, open_api
from shared.kube.tokens import TokenVerifier
from shared.pools import PoolSpec


class Reached(msgspec.Struct, frozen=True):
    """A cluster, and what its pods have in common."""

    api: KubeApi
    template: PodTemplate


@asynccontextmanager
async def reach_cluster(settings: PoolSettings) -> AsyncIterator[Reached]:
    """Read how to reach the cluster; nothing is asked of it yet.

    Raises:
        InvalidMessage: a file is missing or of no use.
    """
    if settings.kubernetes_file is None:
        raise InvalidMessage("POOL_PODS=kubernetes needs POOL_KUBERNETES_FILE")
    template = read_template(Path(settings.kubernetes_file))
    async with open_api(Access(kubeconfig=settings.kubeconfig)) as api:
        yield Reached(api, template)


class KubeSide:
    """What a pool-manager has beside the rest when Kubernetes runs its pods."""

    def __init__(
        self, reached: Reached, world: World, pools: Sequence[PoolSpec], settings: PoolSettings
    ) -> None:
        """Keep `world` told of the cluster."""
        self._reached = reached
        self._world = world
        template = reached.template
        self.servers = template.nats_servers
        self._cluster = Cluster(template)
        times = Times(pending_s=settings.pending_s, fence_s=settings.fence_s)
        by_name = {pool.name: pool for pool in pools}
        self.pods = KubePods(reached.api, self._cluster, by_name)
        watches = KubeWatches(reached.api, template)
        self.watcher = ClusterWatcher(world, self._cluster, watches, self.pods, times)
        self.pods.on_made = self.watcher.made
        volumes, nodes = KubeVolumes(reached.api, template), KubeNodes(reached.api)
        self.volumes = VolumeKeeping(world, self._cluster, volumes, nodes)

    def enrol_with(self, slots: SlotStore, mint: Mint, replies: Replies) -> None:
        """Give pods their credentials by these; before `serve`."""
        verifier = TokenVerifier(self._reached.api, AUDIENCE, self._reached.template.issuer)
        proofs = KubeProofs(verifier, self._reached.template)
        self._enroller = Enroller(self._world, self._cluster, (slots, proofs, mint, replies))
        self.hands = [self.watcher.hands, self._enroller.hands]

    def tell(self, on_due: Callable[[], None], on_lost: Callable[[], None]) -> None:
        """Have these called when a slot wants a pod, and when a session lost its owner."""
        self.watcher.on_due, self.watcher.on_lost = on_due, on_lost
        self.volumes.on_due = on_due

    async def serve(self, bus: Bus) -> Subscription:
        """Take requests of new pods."""
        self.pods.folders = BusKeepers(bus)
        group = subjects.MANAGER_GROUP
        return await bus.subscribe(subjects.enroll(), self._enroller.heard, queue=group)
