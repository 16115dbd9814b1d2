"""Claims and keepers of volumes in the Kubernetes API, and keepers as they are asked over NATS."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from pool_manager.core.dead_nodes import Act, patch
from pool_manager.core.pod_form import PART_OF, PRODUCT
from pool_manager.core.pod_template import PodTemplate
from pool_manager.core.volume_form import VOLUME_OF, claim_manifest, keepers_manifest
from pool_manager.core.volume_state import ClaimView, DeploymentView
from shared import messages, subjects
from shared.bus import Bus
from shared.errors import Conflict, NotFound, Unavailable, error_of
from shared.kube.client import KubeApi
from shared.kube.views import NodeView, PodView
from shared.pools import PoolSpec
from shared.volumes import MakeAsk, VolumeAnswer

MAKE_S = 4.5
T = TypeVar("T")
_SELECTOR = {"labelSelector": f"{PART_OF}={PRODUCT},{VOLUME_OF}"}


class _Claims(msgspec.Struct):
    items: list[ClaimView]


class _Pods(msgspec.Struct):
    items: list[PodView]


class _Deployments(msgspec.Struct):
    items: list[DeploymentView]


class KubeVolumes:
    """Implements `ports.volumes.Volumes`."""

    def __init__(self, api: KubeApi, template: PodTemplate) -> None:
        """Look at the template's namespace."""
        self._api = api
        self._template = template
        self._claims = f"/api/v1/namespaces/{template.namespace}/persistentvolumeclaims"
        self._pods = f"/api/v1/namespaces/{template.namespace}/pods"
        self._deployments = f"/apis/apps/v1/namespaces/{template.namespace}/deployments"

    async def claims(self) -> dict[str, ClaimView]:
        """Return claims by their pools."""
        found = _read(await self._api.get(self._claims, _SELECTOR), _Claims)
        return {one.metadata.labels[VOLUME_OF]: one for one in found.items}

    async def keepers(self) -> dict[str, DeploymentView]:
        """Return keepers' Deployments by their pools."""
        found = _read(await self._api.get(self._deployments, _SELECTOR), _Deployments)
        return {one.metadata.labels[VOLUME_OF]: one for one in found.items}

    async def keeper_nodes(self) -> dict[str, set[str]]:
        """Return the nodes that have pods of keepers, by their pools."""
        nodes: dict[str, set[str]] = {}
        for pod in _read(await self._api.get(self._pods, _SELECTOR), _Pods).items:
            if pod.spec.node_name and pod.status.phase not in ("Succeeded", "Failed"):
                nodes.setdefault(pod.metadata.labels[VOLUME_OF], set()).add(pod.spec.node_name)
        return nodes

    async def claim(self, pool: PoolSpec) -> None:
        """Claim a pool's volume."""
        try:
            await self._api.create(self._claims, claim_manifest(self._template, pool))
        except Conflict:
            return  # another pool-manager was faster

    async def keep(self, pool: PoolSpec, before: DeploymentView | None) -> None:
        """Have a pool's keepers, in the form that they are to have now."""
        wanted = keepers_manifest(self._template, pool)
        try:
            if before is None:
                await self._api.create(self._deployments, wanted)
                return
            wanted["metadata"]["resourceVersion"] = before.metadata.resource_version
            await self._api.replace(f"{self._deployments}/{before.metadata.name}", wanted)
        except Conflict:
            return  # likewise; there is a next look

    async def dismiss(self, keepers: DeploymentView) -> None:
        """End the keepers of a pool that is not declared any more. Its claim stays."""
        try:
            await self._api.delete(f"{self._deployments}/{keepers.metadata.name}")
        except NotFound:
            return


class KubeNodes:
    """Implements `ports.volumes.Nodes`."""

    def __init__(self, api: KubeApi) -> None:
        """Use the API server."""
        self._api = api

    async def mark(self, node: NodeView, act: Act) -> None:
        """Take a node out of service, or back."""
        await self._api.patch(f"/api/v1/nodes/{node.metadata.name}", patch(node, act))


class BusKeepers:
    """Implements `ports.volumes.Folders`."""

    def __init__(self, bus: Bus) -> None:
        """Use the service's connection."""
        self._bus = bus

    async def make(self, pool: str, pod: str) -> None:
        """Have a folder for a pod on its pool's volume."""
        reply = await self._bus.request(
            subjects.volume(pool, "make", pod), messages.encode(MakeAsk()), timeout_s=MAKE_S
        )
        answer = messages.decode(reply.data, VolumeAnswer)
        if answer.error is not None:
            raise error_of(answer.error)


def _read(data: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.MsgspecError as exc:
        raise Unavailable(f"the Kubernetes API says what cannot be read: {exc}") from exc
