"""What `deploy/base` calls things: where the command line looks for them."""

from __future__ import annotations

from typing import NamedTuple

NAMESPACE = "agent-sandbox"
CLIENT_SERVICE = "nats-clients"
"""The Service of the edges, clients' way in."""
CLIENT_PORT = 4222
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
