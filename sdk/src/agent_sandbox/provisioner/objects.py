"""Secrets, ConfigMaps and the templates of workloads in the Kubernetes API."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from agent_sandbox.provisioner.ports import Held, Keeper, Place, Workload
from shared.errors import NotFound
from shared.kube.client import KubeApi

MARK = "agent-sandbox.dev/generation"
"""Annotation on a workload's template."""
LABELS = {
    "app.kubernetes.io/part-of": "agent-sandbox",
    "app.kubernetes.io/managed-by": "provisioner",
}
_COLLECTIONS: dict[Keeper | Workload, str] = {
    "Secret": "/api/v1/namespaces/{}/secrets",
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
}


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str


class _Keeper(msgspec.Struct):
    metadata: _Metadata
    data: dict[str, str] = {}


class KubeObjects:
    """Implements `ports.Objects`."""

    def __init__(self, api: KubeApi) -> None:
        """Ask `api`."""
        self._api = api

    async def read(self, place: Place) -> Held | None:
        """Return what it holds, None where there is none."""
        try:
            found = await self._api.get(_path(place.kind, place.namespace, place.name))
        except NotFound:
            return None
        kept = msgspec.json.decode(found, type=_Keeper)
        texts = kept.data.items()
        if place.kind == "Secret":
            data = {key: base64.b64decode(text) for key, text in texts}
        else:
            data = {key: text.encode() for key, text in texts}
        return Held(data, kept.metadata.resource_version)

    async def write(self, place: Place, data: dict[str, bytes], version: str | None) -> None:
        """Create it, or replace what that version held."""
        if place.kind == "Secret":
            texts = {key: base64.b64encode(value).decode() for key, value in data.items()}
        else:
            texts = {key: value.decode() for key, value in data.items()}
        metadata = {"name": place.name, "namespace": place.namespace, "labels": LABELS}
        body: dict[str, Any] = {"apiVersion": "v1", "kind": place.kind, "data": texts}
        if version is None:
            collection = _COLLECTIONS[place.kind].format(place.namespace)
            await self._api.create(collection, {**body, "metadata": metadata})
            return
        body["metadata"] = {**metadata, "resourceVersion": version}
        await self._api.replace(_path(place.kind, place.namespace, place.name), body)

    async def template_mark(self, kind: Workload, namespace: str, name: str) -> str | None:
        """Return the mark of a workload's pods; empty: they have none; None: there is no such workload."""
        try:
            found = msgspec.json.decode(await self._api.get(_path(kind, namespace, name)))
        except NotFound:
            return None
        return str(_annotations(found).get(MARK, ""))

    async def mark_template(self, kind: Workload, namespace: str, name: str, mark: str) -> None:
        """Give a workload's pods a mark, unless the workload is changed at the same time: then there is a next look."""
        path = _path(kind, namespace, name)
        found = msgspec.json.decode(await self._api.get(path))
        _annotations(found)[MARK] = mark
        await self._api.replace(path, found)


def _path(kind: Keeper | Workload, namespace: str, name: str) -> str:
    return f"{_COLLECTIONS[kind].format(namespace)}/{name}"


def _annotations(workload: dict[str, Any]) -> dict[str, str]:
    metadata = workload["spec"]["template"].setdefault("metadata", {})
    found: dict[str, str] = metadata.setdefault("annotations", {})
    return found
