"""What `deploy/base` calls things: where the command line looks for them."""

from __future__ import annotations

from typing import NamedTuple

NAMESPACE = "agent-sandbox"
EDGE_SERVICE = "client-edge"
"""The Service of the edges, clients' way in."""
EDGE_PORT = 4223
SERVERS_LABEL = "app.kubernetes.io/name=nats"
"""Of the NATS servers' pods."""
SERVER_PORT = 4222
MONITOR_PORT = 8222
POOL_LABEL = "agent-sandbox.dev/pool"
"""Of workers' pods: whose they are."""
POOLS_MAP = "agent-sandbox-pools"
"""ConfigMap in which pools are declared."""
POOLS_KEY = "pools.toml"
AUTHORITY_MAP = "agent-sandbox-ca"
"""ConfigMap with the certificate of the system's own authority."""
ROOT_SECRET = "agent-sandbox-root"  # noqa: S105 - a name
"""Holds the root of trust: whoever reads it can be anybody."""
ROOT_KEY = "root.json"
CREDENTIAL_KEY = "client.creds"
CA_KEY = "ca.crt"


class Namespaces(NamedTuple):
    """Where the parts of one system are."""

    system: str
    """Servers, services."""
    nodes: str
    """What must see a node's disk."""
    pods: str
    """Workers."""


def namespaces(system: str = NAMESPACE) -> Namespaces:
    """Return the three of a system, by the name of the first."""
    return Namespaces(system, f"{system}-nodes", f"{system}-pods")


def tenant_secret(tenant: str) -> str:
    """Return the Secret that holds a tenant's credential, its token, and the authority to believe."""
    return f"tenant-{tenant}"
