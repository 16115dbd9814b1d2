"""The way to a system on Kubernetes from outside: the tenant's credential from its Secret, an edge by a forwarded port."""

from __future__ import annotations

import base64
import binascii
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from agent_sandbox.kubernetes.names import (
    CA_KEY,
    CREDENTIAL_KEY,
    EDGE_PORT,
    EDGE_SERVICE,
    tenant_secret,
)
from shared.errors import InvalidMessage, NotFound, Unavailable
from shared.kubectl import Kubectl, forwarded

GREETING_S = 5.0
"""Longest wait for the first words of an edge."""


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """How a client gets in: what `ClientOptions` wants of a cluster elsewhere."""

    servers: tuple[str, ...]
    credential: Path
    ca: Path | None
    """None: they speak no TLS."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Which system of which cluster, and as whom."""

    kubectl: Kubectl
    namespace: str
    tenant: str


class _Greeting(msgspec.Struct):
    tls_required: bool = False


@contextmanager
def reach(place: Place, servers: tuple[str, ...] = ()) -> Iterator[Way]:
    """Open a way in; it is shut, and its files are gone, at the end of the block.

    Args:
        place: where to.
        servers: addresses that lead there; none: a port of this machine is forwarded to one of the edges, which is a
            way for a person's commands: it breaks when that edge's pod ends.

    Raises:
        NotFound: no kubectl, or nothing of ours in that namespace.
        Forbidden: the context's user may not read the Secret, or not forward a port.
        Unavailable: the API server or the edge can't be reached.
        ServiceError: see `Kubectl.run`.
    """
    secret = read_secret(place)
    with tempfile.TemporaryDirectory(prefix="agent-sandbox-") as folder:
        credential, ca = (Path(folder) / key for key in (CREDENTIAL_KEY, CA_KEY))
        for path in (credential, ca):
            path.touch(mode=0o600)
            path.write_bytes(secret[path.name])
        if servers:
            speaks_tls = any(address.startswith("tls:") for address in servers)
            yield Way(servers=servers, credential=credential, ca=ca if speaks_tls else None)
            return
        with forwarded(
            place.kubectl, place.namespace, f"service/{EDGE_SERVICE}", EDGE_PORT
        ) as port:
            speaks_tls = _speaks_tls(port)
            yield Way(
                servers=(f"{'tls' if speaks_tls else 'nats'}://127.0.0.1:{port}",),
                credential=credential,
                ca=ca if speaks_tls else None,
            )


def read_secret(place: Place) -> Mapping[str, bytes]:
    """Return what a tenant's Secret holds.

    Raises:
        NotFound: there is none.
        InvalidMessage: it lacks something.
        ServiceError: see `Kubectl.run`.
    """
    name = tenant_secret(place.tenant)
    found = place.kubectl.find("secret", name, namespace=place.namespace)
    if found is None:
        raise NotFound(
            f"no Secret {place.namespace}/{name}: no system in that namespace, or no such tenant"
        )
    data = found.get("data") or {}
    try:
        return {key: base64.b64decode(data[key], validate=True) for key in (CREDENTIAL_KEY, CA_KEY)}
    except (KeyError, binascii.Error) as exc:
        raise InvalidMessage(f"Secret {place.namespace}/{name} has no usable {exc}") from exc


def _speaks_tls(port: int) -> bool:
    """Return whether the edge behind a forwarded port wants TLS: it says so in its first line, before anybody else speaks.

    Who forwards the port is believed for that: the way to the API server is a TLS connection itself.

    Raises:
        Unavailable: there is no such line.
    """
    try:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=GREETING_S) as connection,
            connection.makefile("rb") as lines,
        ):
            word, _, rest = lines.readline(1 << 16).partition(b" ")
            if word == b"INFO":
                return msgspec.json.decode(rest, type=_Greeting).tls_required
    except (OSError, msgspec.DecodeError, msgspec.ValidationError) as exc:
        raise Unavailable(f"the edge does not answer: {exc}") from exc
    raise Unavailable("the edge says nothing: no server behind it is ready")
