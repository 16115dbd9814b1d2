"""The way to a cluster of Kubernetes from outside: the tenant's credential from its Secret, the edges by port-forward."""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import re
import selectors
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from agent_sandbox.kubernetes.names import (
    CA_KEY,
    CLIENT_PORT,
    CLIENT_SERVICE,
    CREDENTIAL_KEY,
    tenant_secret,
)
from shared.errors import InvalidMessage, NotFound, Unavailable
from shared.kubectl import Kubectl

FORWARDED = re.compile(rb"Forwarding from 127\.0\.0\.1:(\d+)")
FORWARD_S = 15.0
"""Longest wait for a forwarded port."""
END_S = 3.0


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """How a client gets in: what `ClientOptions` wants of a cluster elsewhere."""

    servers: tuple[str, ...]
    credential: Path
    ca: Path


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Which system of which cluster, and as whom."""

    kubectl: Kubectl
    namespace: str
    tenant: str


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
            yield Way(servers=servers, credential=credential, ca=ca)
            return
        with _forwarded(place) as port:
            yield Way(servers=(f"tls://127.0.0.1:{port}",), credential=credential, ca=ca)


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


@contextmanager
def _forwarded(place: Place) -> Iterator[int]:
    """Have a port of this machine forwarded to an edge while the block lasts; return it."""
    words = ("port-forward", "-n", place.namespace, f"service/{CLIENT_SERVICE}", f":{CLIENT_PORT}")
    try:
        child = subprocess.Popen(
            place.kubectl.command(*words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
        )
    except FileNotFoundError as exc:
        raise NotFound(f"{place.kubectl.program} is not installed") from exc
    try:
        yield _read_port(child)
    finally:
        child.terminate()
        try:
            child.wait(END_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        if child.stdout is not None:
            child.stdout.close()


def _read_port(child: subprocess.Popen[bytes]) -> int:
    """Return the port that is forwarded, once it is.

    Raises:
        Unavailable: it said something else and ended, or nothing in time.
    """
    assert child.stdout is not None
    said, until = b"", time.monotonic() + FORWARD_S
    with selectors.DefaultSelector() as ready:
        ready.register(child.stdout, selectors.EVENT_READ)
        while (left_s := until - time.monotonic()) > 0:
            if not ready.select(left_s):
                break
            chunk = os.read(child.stdout.fileno(), 4096)
            said += chunk
            if found := FORWARDED.search(said):
                return int(found[1])
            if not chunk:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(END_S)
                break
    words = said.decode(errors="replace").strip() or f"nothing within {FORWARD_S:g} s"
    raise Unavailable(f"no port could be forwarded to {CLIENT_SERVICE}: {words}")
