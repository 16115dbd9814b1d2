"""Where things lie by default: the state folder of the embedded cluster, and what a client finds in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

STATE_VARIABLE = "AGENT_SANDBOX_STATE"
SERVERS_VARIABLE = "AGENT_SANDBOX_SERVERS"
CREDENTIAL_VARIABLE = "AGENT_SANDBOX_CREDENTIAL"
TOKEN_VARIABLE = "AGENT_SANDBOX_TOKEN"  # noqa: S105 - its name, not a token
TOKEN_FILE_VARIABLE = "AGENT_SANDBOX_TOKEN_FILE"  # noqa: S105 - likewise
CA_VARIABLE = "AGENT_SANDBOX_CA"
"""Names the certificates of the authority that vouches for servers and gateways elsewhere."""
CONTEXT_VARIABLE = "AGENT_SANDBOX_CONTEXT"
"""Names a context of the kubeconfig: the command line reaches the cluster of Kubernetes through it."""
FAILPOINTS_VARIABLE = "AGENT_SANDBOX_FAILPOINTS"
"""For tests: folder of placed faults (`shared.failpoints`)."""
TENANT = "default"
"""Tenant of the embedded cluster's client."""


def default_state(environ: Mapping[str, str]) -> Path:
    """Return the state folder to use where none is named: `$AGENT_SANDBOX_STATE`, else the user's XDG state folder."""
    if named := environ.get(STATE_VARIABLE):
        return Path(named)
    base = (
        environ.get("XDG_STATE_HOME")
        or Path(environ.get("HOME") or "~").expanduser() / ".local/state"
    )
    return Path(base) / "agent-sandbox"


CLUSTER_FILE = "cluster.json"
TABLE_FILE = "processes.json"
"""What the supervisor says of itself, from its start to its end."""
CREDENTIAL_FILE = "credentials/client.creds"
TOKEN_FILE = "token"  # noqa: S105 - a name
"""The embedded cluster's token for its gateways, mode 0600."""
