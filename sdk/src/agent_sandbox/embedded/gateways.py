"""The embedded cluster's gateways: how they are started, and the token with which this machine's user comes in."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence

import msgspec

from agent_sandbox import places
from agent_sandbox.embedded.child import Service
from agent_sandbox.embedded.folder import ClusterFile, Folder
from agent_sandbox.embedded.programs import prepare, probes
from shared.cluster.ports import LOOPBACK
from shared.identity import write_secret

TOKEN_BYTES = 32
DRAIN_S = 3.0
"""A gateway's time for what is under way."""


def addresses(ports: Sequence[int]) -> tuple[str, ...]:
    """Return where the gateways are asked."""
    return tuple(f"http://{LOOPBACK}:{port}" for port in ports)


def write_access(folder: Folder) -> None:
    """Make the token where it is missing, and write the gateways' list of tenants: the one that this cluster has."""
    if not folder.token_file.exists():
        write_secret(folder.token_file, secrets.token_urlsafe(TOKEN_BYTES) + "\n")
    token = folder.token_file.read_text().strip()
    access = {
        "token_sha256s": [hashlib.sha256(token.encode()).hexdigest()],
        "credential": str(folder.client_credential),
    }
    text = msgspec.json.encode({"tenants": {places.TENANT: access}}).decode()
    if not folder.tenants_file.exists() or folder.tenants_file.read_text() != text:
        write_secret(folder.tenants_file, text)


def gateways(folder: Folder, cluster: ClusterFile, ports: Sequence[int]) -> list[Service]:
    """Return the gateways, to be started."""
    made = []
    for number, port in enumerate(ports, 1):
        one = prepare(folder, cluster, f"gateway-{number}", "gateway")
        one.kind = "gateway"
        one.grace_s = DRAIN_S + 4.0
        one.env |= {
            "GATEWAY_NAME": one.name,
            "GATEWAY_SERVERS": ",".join(cluster.servers),
            "GATEWAY_TENANTS_FILE": str(folder.tenants_file),
            "GATEWAY_HOST": LOOPBACK,
            "GATEWAY_PORT": str(port),
            "GATEWAY_DRAIN_S": str(DRAIN_S),
            "GATEWAY_READY_FILE": str(one.ready_file),
            **probes(one, "GATEWAY_"),
        }
        made.append(one)
    return made
