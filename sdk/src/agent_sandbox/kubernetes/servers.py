"""The NATS servers of a system on Kubernetes, as an administrator reaches them from outside: by their pods' addresses, with all rights."""

from __future__ import annotations

import asyncio
import base64

import msgspec

from agent_sandbox.kubernetes.names import (
    EDGE_SERVICE,
    ROOT_KEY,
    ROOT_SECRET,
    SERVER_PORT,
    SERVERS_LABEL,
    Namespaces,
)
from shared.bus import Bus, BusOptions, Tls, know_servers
from shared.errors import Unavailable
from shared.identity import Identity, roles
from shared.kubectl import Kubectl


class _Pair(msgspec.Struct):
    certificate: str


class _Root(msgspec.Struct):
    identity: Identity
    authority: _Pair


async def connect_admin(
    kubectl: Kubectl, spaces: Namespaces, name: str, *, rather_not: str = ""
) -> Bus:
    """Connect to the servers with all rights, minted from the root of trust.

    Args:
        kubectl: how to ask for it.
        spaces: where it is.
        name: of the connection.
        rather_not: server to try last.
    """
    secret = await asyncio.to_thread(kubectl.get, "secret", ROOT_SECRET, namespace=spaces.system)
    root = msgspec.json.decode(base64.b64decode(secret["data"][ROOT_KEY]), type=_Root)
    servers = await asyncio.to_thread(addresses, kubectl, spaces, SERVER_PORT)
    return await Bus.connect(
        BusOptions(
            servers=tuple(sorted(servers, key=lambda one: one.endswith(rather_not or "-"))),
            name=name,
            credential=root.identity.signer.mint(name, roles.admin()),
            tls=Tls(ca_pem=root.authority.certificate, server_name=EDGE_SERVICE),
        )
    )


def addresses(kubectl: Kubectl, spaces: Namespaces, port: int) -> tuple[str, ...]:
    """Return the addresses of a port of the servers' pods that have one.

    Raises:
        Unavailable: none has.
    """
    found = tuple(f"nats://{pod_ip}:{port}" for pod_ip in server_ips(kubectl, spaces))
    if not found:
        raise Unavailable(f"no NATS server's pod in {spaces.system} has an address")
    return found


async def follow_servers(kubectl: Kubectl, spaces: Namespaces, port: int, *buses: Bus) -> None:
    """Tell connections where the servers' pods are now: one whose node was booted has another address than when they were made.

    Raises:
        Unavailable: no server has an address.
    """
    found = list(await asyncio.to_thread(addresses, kubectl, spaces, port))
    for bus in buses:
        know_servers(bus, found)


def server_ips(kubectl: Kubectl, spaces: Namespaces) -> list[str]:
    """Return the addresses of the servers' pods that are ready."""
    pods = kubectl.list("pods", namespace=spaces.system, labels=SERVERS_LABEL)
    return [
        pod["status"]["podIP"]
        for pod in pods
        if pod["status"].get("podIP")
        and any(
            one["type"] == "Ready" and one["status"] == "True"
            for one in pod["status"].get("conditions", ())
        )
    ]
