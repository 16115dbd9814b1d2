"""Pods on Kubernetes: made, ended and watched through the API server; pods told by their tokens."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import msgspec

from pool_manager.core.kube_cluster import Cluster
from pool_manager.core.kube_forms import FORM
from pool_manager.core.kube_pods import write_lanes
from pool_manager.core.pod_form import PART_OF, POOL, PRODUCT, pod_manifest
from pool_manager.core.pod_order import PodOrder
from pool_manager.core.pod_template import PodClass, PodTemplate
from pool_manager.ports.kube import Proof
from pool_manager.ports.pods import NotAllowed
from pool_manager.ports.volumes import Folders
from shared.errors import (
    Conflict,
    Forbidden,
    LimitExceeded,
    NotFound,
    OutcomeUnknown,
    Rejected,
    ServiceError,
    Unavailable,
)
from shared.kube.client import KubeApi
from shared.kube.events import Watched
from shared.kube.tokens import TokenVerifier
from shared.kube.views import NodeView, PodView, RuntimeClassView
from shared.kube.watch import Watch
from shared.messages import PodSpec
from shared.pools import PoolSpec

CREATE_S = 5.0
GRACE_MIN_S = 1
"""0 would be an order to forget the pod, whatever runs."""

_pods = msgspec.json.Decoder(PodView)


class KubePods:
    """Implements `ports.Pods` and `ports.kube.Remover` by the API server."""

    def __init__(self, api: KubeApi, cluster: Cluster, pools: dict[str, PoolSpec]) -> None:
        """Make pods of these pools.

        Args:
            api: the API server.
            cluster: tells which nodes to keep off.
            pools: declared pools by name.
        """
        self.on_made: Callable[[PodView], None] = lambda _: None
        """Called with each new pod, which the watch tells of only later."""
        self.folders: Folders | None = None
        """Makes folders for pods of pools that have a volume."""
        self._api = api
        self._cluster = cluster
        self._pools = pools
        self._path = f"/api/v1/namespaces/{cluster.template.namespace}/pods"

    async def create(self, spec: PodSpec) -> None:
        """Ask for a pod; asking twice under one name makes it once."""
        slot = spec.pod.removeprefix(f"{spec.pool}-").rpartition("-")[0]
        order = PodOrder(
            spec.pod,
            slot,
            cast(PodClass, spec.isolation),
            lanes=write_lanes(spec.lanes),
            user_namespace=self._cluster.has_user_namespaces,
            avoid=self._cluster.avoid,
        )
        pool = self._pools[spec.pool]
        if pool.on_volume:
            await self._make_folder(spec)
        manifest = pod_manifest(self._cluster.template, pool, order)
        manifest["metadata"]["annotations"][FORM] = self._cluster.forms(pool)[spec.isolation]
        try:
            made = await self._api.create(self._path, manifest, timeout_s=CREATE_S)
        except Conflict as exc:
            self._check_mine(spec.pod, spec.pool, exc)
        except (LimitExceeded, Forbidden) as exc:
            raise NotAllowed(str(exc)) from exc
        except NotFound as exc:
            raise NotAllowed(f"namespace {self._cluster.template.namespace}: {exc}") from exc
        except Rejected as exc:
            raise NotAllowed(f"the pod's form: {exc}") from exc
        else:
            self.on_made(_pod(made))

    async def _make_folder(self, spec: PodSpec) -> None:
        """Have a folder for the pod on its pool's volume, before a kubelet looks for it.

        Raises:
            NotAllowed: there is none now; says what is wrong with the volume.
        """
        try:
            if self.folders is None:
                raise Unavailable("nobody can be asked yet")
            await self.folders.make(spec.pool, spec.pod)
        except ServiceError as exc:
            raise NotAllowed(
                self._cluster.volumes.get(spec.pool) or f"the keepers of its volume: {exc}"
            ) from exc

    def _check_mine(self, pod: str, pool: str, exc: Conflict) -> None:
        """Take a pod of this name for ours, made by an earlier try, as soon as the watch has told of it."""
        known = self._cluster.pods.get(pod)
        if known is None:
            raise OutcomeUnknown(f"{exc}; the watch has not told of it yet") from exc
        if known.pool != pool:
            raise NotAllowed(f"there is a pod {pod} that is not of this pool") from exc

    async def delete(self, node: str, pod: str, grace_s: float) -> None:
        """End a pod; one that is gone already is no error. Kubernetes knows its node."""
        known = self._cluster.pods.get(pod)
        await self._delete(pod, max(math.ceil(grace_s), GRACE_MIN_S), known.uid if known else None)

    async def remove(self, pod: str, uid: str, *, forced: bool) -> None:
        """End this very pod, or have it forgotten."""
        await self._delete(pod, 0 if forced else GRACE_MIN_S, uid)

    async def retire(self, pod: str, uid: str) -> None:
        """End this very pod in good order: it may have got a session just now, which it hands over."""
        await self._delete(pod, self._cluster.template.stop_grace_s, uid)

    async def _delete(self, pod: str, grace_s: int, uid: str | None) -> None:
        options: dict[str, Any] = {"gracePeriodSeconds": grace_s}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        try:
            await self._api.delete(f"{self._path}/{pod}", options)
        except (NotFound, Conflict):
            return  # it is gone, or another one has its name


class KubeWatches:
    """Implements `ports.kube.Watches`."""

    def __init__(self, api: KubeApi, template: PodTemplate) -> None:
        """Watch the template's namespace."""
        self._api = api
        self._template = template

    def pods(self) -> AsyncIterator[Watched[PodView]]:
        """Watch the worker pods."""
        path = f"/api/v1/namespaces/{self._template.namespace}/pods"
        query = {"labelSelector": f"{PART_OF}={PRODUCT},{POOL}"}
        return Watch(self._api, path, PodView, query).run()

    def nodes(self) -> AsyncIterator[Watched[NodeView]]:
        """Watch the nodes."""
        return Watch(self._api, "/api/v1/nodes", NodeView).run()

    def runtimes(self) -> AsyncIterator[Watched[RuntimeClassView]]:
        """Watch the runtime classes."""
        return Watch(self._api, "/apis/node.k8s.io/v1/runtimeclasses", RuntimeClassView).run()


class KubeProofs:
    """Implements `ports.kube.Proofs`: a token must be of the workers' service account."""

    def __init__(self, verifier: TokenVerifier, template: PodTemplate) -> None:
        """Check tokens with `verifier`."""
        self._verifier = verifier
        self._template = template

    async def prove(self, token: str) -> Proof:
        """Return which pod a token was written for."""
        proof = await self._verifier.verify(token)
        if (proof.namespace, proof.service_account) != (
            self._template.namespace,
            self._template.service_account,
        ):
            raise Forbidden(
                f"a token of {proof.namespace}/{proof.service_account}, which runs no workers"
            )
        return Proof(pod=proof.pod, uid=proof.uid, node=proof.node)


def _pod(data: bytes) -> PodView:
    try:
        return _pods.decode(data)
    except msgspec.MsgspecError as exc:
        raise Unavailable(f"the Kubernetes API says what cannot be read: {exc}") from exc
