"""Requests to the API server: JSON in and out as bytes, each with a deadline, errors as ours."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
import msgspec
from kubernetes.aio import client as official
from kubernetes.aio import config as _config
from kubernetes.aio.client.rest import RESTClientObject

from shared.errors import InvalidMessage, LimitExceeded, OutcomeUnknown, Unavailable
from shared.kube.refusals import refusal

official_config: Any = _config  # ships no types
ACCEPTED = "application/json, application/jwk-set+json"
CONNECT_S = 2.0
ANSWER_BYTES_MAX = 64 << 20
"""Of one answer: a list of some thousand pods."""
LINE_BYTES_MAX = 4 << 20
"""Of one watched object."""
CONNECTIONS_MAX = 32
Body = Mapping[str, Any] | Sequence[Mapping[str, Any]]
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 5), (socket.TCP_KEEPINTVL, 2), (socket.TCP_KEEPCNT, 3))
"""A watch says nothing for long; a server that lost power is noticed by this."""


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """How the cluster is reached."""

    kubeconfig: str | None = None
    """File; None: the service account of the pod that this process runs in."""
    context: str | None = None
    """Of that file; None: its current one."""


class _Rest(RESTClientObject):
    def _create_connector(self) -> aiohttp.TCPConnector:
        return aiohttp.TCPConnector(
            limit=CONNECTIONS_MAX, ssl=self.ssl_context, socket_factory=_make_socket
        )


def _make_socket(info: Any) -> socket.socket:
    made = socket.socket(*info[:3])
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made


class KubeApi:
    """One API server. Nothing is retried here; a deadline that passes on a write is `OutcomeUnknown`."""

    def __init__(self, api: Any) -> None:
        """Use the official client; `open_api` makes one."""
        self._api = api
        self._api.rest_client = _Rest(api.configuration)

    @property
    def host(self) -> str:
        """URL of the API server."""
        return str(self._api.configuration.host)

    async def get(
        self, path: str, query: Mapping[str, str] | None = None, *, timeout_s: float = 5.0
    ) -> bytes:
        """Return what lies at `path`.

        Raises:
            NotFound: nothing.
            Forbidden: the credential does not allow it.
            Unavailable: the server does not answer, or not now.
        """
        return await self._ask("GET", path, query, None, timeout_s)

    async def create(self, path: str, body: Mapping[str, Any], *, timeout_s: float = 5.0) -> bytes:
        """Make an object in the collection at `path`; return it.

        Raises:
            Conflict: there is one of that name.
            Rejected: the server, or an admission rule, refuses it (`LimitExceeded`: by a quota).
            Unavailable: surely not now.
            OutcomeUnknown: it may have been made.
        """
        return await self._ask("POST", path, None, body, timeout_s)

    async def replace(self, path: str, body: Mapping[str, Any], *, timeout_s: float = 5.0) -> bytes:
        """Put an object in place of the one at `path`; errors as for `create`."""
        return await self._ask("PUT", path, None, body, timeout_s)

    async def patch(
        self, path: str, operations: Sequence[Mapping[str, Any]], *, timeout_s: float = 5.0
    ) -> bytes:
        """Change the object at `path` by a JSON patch; errors as for `create`, and `NotFound`."""
        return await self._ask("PATCH", path, None, operations, timeout_s)

    async def delete(
        self, path: str, options: Mapping[str, Any] | None = None, *, timeout_s: float = 5.0
    ) -> bytes:
        """Delete what lies at `path` by these `DeleteOptions`; errors as for `create`, and `NotFound`."""
        return await self._ask("DELETE", path, None, options or {}, timeout_s)

    @asynccontextmanager
    async def lines(
        self, path: str, query: Mapping[str, str], *, within_s: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open an endless answer; yield its lines. It is ended after `within_s`, orderly or not.

        Raises:
            ServiceError: as for `get`, also in the middle.
        """
        answer = await self._send("GET", path, query, None, within_s)
        try:
            if answer.status != 200:
                raise refusal(answer.status, await _body_of(answer), writes=False)
            yield _lines_of(answer)
        finally:
            answer.close()

    async def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Body | None,
        timeout_s: float,
    ) -> bytes:
        writes = method != "GET"
        answer = await self._send(method, path, query, body, timeout_s)
        try:
            data = await _body_of(answer)
        except (aiohttp.ClientError, TimeoutError, OSError) as exc:
            raise _lost(exc, writes=writes) from exc
        finally:
            answer.release()
        if not 200 <= answer.status < 300:
            raise refusal(answer.status, data, writes=writes)
        return data

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Body | None,
        timeout_s: float,
    ) -> aiohttp.ClientResponse:
        url = path + ("?" + urlencode(query) if query else "")
        accepts = {"Accept": ACCEPTED}
        if method == "PATCH":
            accepts["Content-Type"] = "application/json-patch+json"
        try:
            _, url, headers, sent, _ = await self._api.param_serialize(
                method, url, header_params=accepts, body=body, auth_settings=["BearerToken"]
            )
        except (OSError, official_config.ConfigException) as exc:
            raise Unavailable(f"no credential for the Kubernetes API: {exc}") from exc
        timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=min(CONNECT_S, timeout_s))
        try:
            answer = await self._api.rest_client.request(
                method, url, headers=headers, body=sent, _request_timeout=timeout
            )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as exc:
            raise Unavailable(f"the Kubernetes API at {self.host} is not reached: {exc}") from exc
        except (aiohttp.ClientError, TimeoutError, OSError) as exc:
            raise _lost(exc, writes=method != "GET") from exc
        response: aiohttp.ClientResponse = answer.response
        return response


def _lost(exc: Exception, *, writes: bool) -> Unavailable | OutcomeUnknown:
    text = f"no answer of the Kubernetes API: {type(exc).__name__} {exc}".rstrip()
    return OutcomeUnknown(text) if writes else Unavailable(text)


async def _body_of(answer: aiohttp.ClientResponse) -> bytes:
    parts, size = [], 0
    async for part in answer.content.iter_any():
        size += len(part)
        if size > ANSWER_BYTES_MAX:
            raise LimitExceeded(f"an answer of more than {ANSWER_BYTES_MAX} bytes")
        parts.append(part)
    return b"".join(parts)


async def _lines_of(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    rest = b""
    try:
        async for part in answer.content.iter_any():
            *whole, rest = (rest + part).split(b"\n")
            for line in whole:
                yield line
            if len(rest) > LINE_BYTES_MAX:
                raise LimitExceeded(f"a watched object of more than {LINE_BYTES_MAX} bytes")
    except (aiohttp.ClientError, TimeoutError, OSError) as exc:
        raise _lost(exc, writes=False) from exc


@asynccontextmanager
async def open_api(access: Access) -> AsyncIterator[KubeApi]:
    """Read the configuration and hold the connections; nothing is asked yet.

    Raises:
        InvalidMessage: the configuration is of no use (named).
    """
    configuration = official.Configuration()
    configuration.retries = None
    # Newer Pythons refuse authorities whose certificate lacks an extension, as those of many clusters do. What is left is
    # the check itself: the server's certificate is of the authority that the kubeconfig or the kubelet gave us.
    configuration.disable_strict_ssl_verification = True
    try:
        if access.kubeconfig is None:
            official_config.load_incluster_config(configuration)
        else:
            if not await asyncio.to_thread(Path(access.kubeconfig).is_file):
                raise InvalidMessage(f"no kubeconfig at {access.kubeconfig}")
            await official_config.load_kube_config(
                access.kubeconfig, access.context, client_configuration=configuration
            )
    except (official_config.ConfigException, OSError, ValueError) as exc:
        raise InvalidMessage(f"Kubernetes configuration: {exc}") from exc
    api: Any = official.ApiClient(configuration)
    try:
        yield KubeApi(api)
    finally:
        with suppress(aiohttp.ClientError, OSError):
            await api.close()


def is_in_cluster() -> bool:
    """Return whether this process runs in a pod with a service account."""
    return "KUBERNETES_SERVICE_HOST" in os.environ
