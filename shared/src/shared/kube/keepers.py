"""Secrets and ConfigMaps as bytes, and the mark on a workload's template by which its pods are replaced."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, Literal, TypeVar

import aiohttp
import msgspec
from kubernetes.aio import client, config
from kubernetes.aio.client.exceptions import ApiException
from kubernetes.aio.config.config_exception import ConfigException

from shared.errors import (
    Conflict,
    Forbidden,
    InvalidMessage,
    NotFound,
    OutcomeUnknown,
    Rejected,
    ServiceError,
    Unavailable,
)

REQUEST_S = 10.0
MARK = "agent-sandbox.dev/generation"
MANAGED = {"app.kubernetes.io/part-of": "agent-sandbox", "app.kubernetes.io/managed-by": "provisioner"}

Kind = Literal["Secret", "ConfigMap"]
Workload = Literal["Deployment", "StatefulSet"]
T = TypeVar("T")


class Kept(msgspec.Struct, frozen=True):
    """What a Secret or ConfigMap holds."""

    data: dict[str, bytes]
    version: str
    """Its resource version."""


class Keepers:
    """Reads and writes them."""

    def __init__(self, api: client.ApiClient) -> None:
        """Use `open_keepers`."""
        self._core, self._apps = client.CoreV1Api(api), client.AppsV1Api(api)

    async def read(self, kind: Kind, namespace: str, name: str) -> Kept | None:
        """Return what it holds; None: there is none.

        Raises:
            Forbidden: we may not.
            Unavailable: the API server does not answer.
        """
        read = (
            self._core.read_namespaced_secret
            if kind == "Secret"
            else self._core.read_namespaced_config_map
        )
        try:
            found: Any = await _ask(read(name, namespace, _request_timeout=REQUEST_S), f"read {kind} {name}")
        except NotFound:
            return None
        data = dict(found.data or {})
        if kind == "Secret":
            held = {key: base64.b64decode(value) for key, value in data.items()}
        else:
            held = {key: value.encode() for key, value in data.items()}
        return Kept(held, found.metadata.resource_version)

    async def write(
        self, kind: Kind, namespace: str, name: str, data: dict[str, bytes], version: str | None
    ) -> None:
        """Create it (`version` None), or replace its data if it is still of that version.

        Raises:
            Conflict: somebody else was first.
            Forbidden: we may not.
            OutcomeUnknown: no answer.
        """
        if kind == "Secret":
            texts = {key: base64.b64encode(value).decode() for key, value in data.items()}
        else:
            texts = {key: value.decode() for key, value in data.items()}
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": namespace, "labels": MANAGED},
            "data": texts,
        }
        core, what = self._core, f"write {kind} {name}"
        if version is None:
            create = (
                core.create_namespaced_secret
                if kind == "Secret"
                else core.create_namespaced_config_map
            )
            await _ask(create(namespace, body, _request_timeout=REQUEST_S), what)
            return
        body["metadata"]["resourceVersion"] = version
        replace = (
            core.replace_namespaced_secret
            if kind == "Secret"
            else core.replace_namespaced_config_map
        )
        await _ask(replace(name, namespace, body, _request_timeout=REQUEST_S), what)

    async def mark_of(self, kind: Workload, namespace: str, name: str) -> str | None:
        """Return the mark on a workload's template, empty where there is none; None: there is no such workload.

        Raises:
            Forbidden: we may not.
            Unavailable: the API server does not answer.
        """
        read = (
            self._apps.read_namespaced_deployment
            if kind == "Deployment"
            else self._apps.read_namespaced_stateful_set
        )
        try:
            found: Any = await _ask(read(name, namespace, _request_timeout=REQUEST_S), f"read {kind} {name}")
        except NotFound:
            return None
        return str((found.spec.template.metadata.annotations or {}).get(MARK, ""))

    async def mark(self, kind: Workload, namespace: str, name: str, mark: str) -> None:
        """Put a mark on a workload's template: if it is another one, its pods are replaced.

        Raises:
            NotFound: there is no such workload.
            Forbidden: we may not.
            OutcomeUnknown: no answer.
        """
        body = {"spec": {"template": {"metadata": {"annotations": {MARK: mark}}}}}
        patch = (
            self._apps.patch_namespaced_deployment
            if kind == "Deployment"
            else self._apps.patch_namespaced_stateful_set
        )
        await _ask(
            patch(name, namespace, body, _request_timeout=REQUEST_S), f"mark {kind} {name}"
        )


@asynccontextmanager
async def open_keepers() -> AsyncIterator[Keepers]:
    """Connect as the pod's service account, or as the kubeconfig says where there is no pod.

    Raises:
        Rejected: neither is there.
    """
    configuration = client.Configuration()
    try:
        try:
            config.load_incluster_config(client_configuration=configuration)
        except ConfigException:
            await config.load_kube_config(client_configuration=configuration)
    except (ConfigException, OSError) as exc:
        raise Rejected(f"no way to a Kubernetes API: {exc}") from exc
    async with client.ApiClient(configuration) as api:
        yield Keepers(api)


async def _ask(call: Awaitable[T], what: str) -> T:
    try:
        return await call
    except ApiException as exc:
        raise _translated(exc, what) from exc
    except (aiohttp.ClientConnectorError, ConnectionRefusedError) as exc:
        raise Unavailable(f"{what}: the API server can't be reached: {exc}") from exc
    except (TimeoutError, aiohttp.ClientError, OSError) as exc:
        raise OutcomeUnknown(f"{what}: no answer of the API server: {exc}") from exc


def _translated(exc: ApiException, what: str) -> ServiceError:
    said = f"{what}: {exc.status} {exc.reason}"
    match exc.status:
        case 404:
            return NotFound(said)
        case 409:
            return Conflict(said)
        case 401 | 403:
            return Forbidden(said)
        case 400 | 422:
            return InvalidMessage(f"{said}: {str(exc.body)[:300]}")
        case _:
            return Unavailable(said)
