"""How each of our services is started: its entry point and the settings in its environment."""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from agent_sandbox import places
from agent_sandbox.embedded.child import Service
from agent_sandbox.embedded.folder import MARK_VARIABLE, ClusterFile, Folder
from shared import subjects
from shared.cluster.ports import LOOPBACK, ServerPorts
from shared.errors import InvalidMessage, NotFound
from shared.identity import (
    Identity,
    Permissions,
    Signer,
    lifetime,
    read_credential,
    roles,
    write_credential,
    write_secret,
)
from shared.pools import PoolSpec

MANAGERS = 2
VALID_S = 24 * 3600.0
"""Life of the services' credentials, and of that for `status`. The supervisor writes them anew at half of it."""
NODE_DRAIN_S = 8.0
"""A node's time to let its workers hand over. `down` ends the whole cluster, so nobody else could take their work."""
KEPT_VARIABLES = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "VIRTUAL_ENV",
    "PYTHONPATH",
    "PYTHONDONTWRITEBYTECODE",
)
"""What our services inherit from the environment of `up`; anything else might be a secret of the user's."""
CHECKPOINTER_MODULE = "checkpointer"
SERVICE_MODULES = (
    CHECKPOINTER_MODULE,
    "client_edge",
    "gateway",
    "local_node",
    "pool_manager",
    "sandbox_runner",
    "worker_agent",
)
"""What must be installed: the services, and what nodes start by name."""
TRACE_PREFIX = "OTEL_"
"""Variables of services that export spans; they may hold the key of whoever takes them, so the others do not get them."""
EXPORTING = ("pool_manager", "gateway")
DIGEST_VARIABLE = "AGENT_SANDBOX_POOLS_DIGEST"
"""Changes when the pools did, and with it the service's command: it is started anew."""


def manager_names() -> tuple[str, ...]:
    """Return the pool-managers' names."""
    return tuple(f"pool-manager-{number}" for number in range(1, MANAGERS + 1))


def node_names(cluster: ClusterFile) -> tuple[str, ...]:
    """Return the nodes' names."""
    return tuple(f"node-{number}" for number in range(1, cluster.nodes + 1))


def write_credentials(
    folder: Folder, identity: Identity, cluster: ClusterFile, *, anew: bool
) -> None:
    """Mint a user for each service, the client and `status`, and write the credentials, mode 0600.

    Args:
        folder: where to write.
        identity: the cluster's keys.
        cluster: which nodes there are.
        anew: make all anew, as at each start: a newer version may give other permissions. Else only what is missing,
            and what has lived half its life.
    """

    def give(name: str, signer: Signer, permissions: Permissions) -> None:
        path = folder.credential(name)
        if anew or _is_due(path):
            write_credential(path, signer.mint(name, permissions, expires_s=VALID_S))

    write_secret(folder.edge_file, msgspec.json.encode(identity.edge).decode())
    write_secret(folder.signer_file, msgspec.json.encode(identity.worker_signer).decode())
    for name in manager_names():
        give(name, identity.signer, roles.pool_manager(name))
        watcher = f"{name}-system"
        give(watcher, identity.system_signer, roles.system_watcher(watcher))
    for name in node_names(cluster):
        give(name, identity.signer, roles.local_node(name))
        give(checkpointer_name(name), identity.signer, roles.checkpointer(name))
    give("status", identity.signer, status_role())
    client = folder.credential("client")
    if anew or not client.exists():
        # It goes to programs of the user's, which need not know that there is a newer one.
        minted = identity.client_signer.mint("client", roles.publisher(places.TENANT), by_edge=True)
        write_credential(client, minted)


def _is_due(path: Path) -> bool:
    """Return whether a credential file is missing, or has lived half its life."""
    try:
        life = lifetime(read_credential(path))
    except (NotFound, InvalidMessage, ValueError):
        return True
    return life is None or time.time() > sum(life) / 2


def status_role() -> Permissions:
    """What `status` may do: ask how pools and nodes are."""
    return Permissions((subjects.ask(places.TENANT, "pools"),), ("_INBOX_status.>",))


def pools_digest(pools: tuple[PoolSpec, ...]) -> str:
    """Return a short name for exactly these pools."""
    return hashlib.sha256(msgspec.json.encode(pools)).hexdigest()[:16]


def edges(folder: Folder, cluster: ClusterFile, ports: Sequence[ServerPorts]) -> list[Service]:
    """Return the client edges, one for each server, to be started."""
    made = []
    for number, each in enumerate(ports, 1):
        service = prepare(folder, cluster, f"edge-{number}", "client_edge")
        service.kind = "edge"
        service.env |= {
            "EDGE_NAME": service.name,
            "EDGE_LISTEN_PORT": str(each.edge),
            "EDGE_SERVER_PORT": str(each.client),
            "EDGE_KEY_FILE": str(folder.edge_file),
            "EDGE_READY_FILE": str(service.ready_file),
            **probes(service, "EDGE_"),
        }
        made.append(service)
    return made


def managers(folder: Folder, cluster: ClusterFile, pools: tuple[PoolSpec, ...]) -> list[Service]:
    """Return the pool-managers, to be started."""
    made = []
    for name in manager_names():
        service = prepare(folder, cluster, name, "pool_manager")
        service.kind = "manager"
        service.env |= {
            "POOL_NAME": name,
            "POOL_NATS_SERVERS": ",".join(cluster.direct),
            "POOL_CREDENTIAL_FILE": str(folder.credential(name)),
            "POOL_SYSTEM_CREDENTIAL_FILE": str(folder.credential(f"{name}-system")),
            "POOL_SIGNER_FILE": str(folder.signer_file),
            "POOL_POOLS_FILE": str(folder.effective_pools_file),
            "POOL_READY_FILE": str(service.ready_file),
            **probes(service, "POOL_"),
            DIGEST_VARIABLE: pools_digest(pools),
        }
        made.append(service)
    return made


def local_nodes(folder: Folder, cluster: ClusterFile) -> list[Service]:
    """Return the nodes, to be started."""
    made = []
    for name in node_names(cluster):
        service = prepare(folder, cluster, name, "local_node")
        service.kind = "node"
        service.grace_s = NODE_DRAIN_S + 6.0
        service.companion_ready_file = folder.ready / checkpointer_name(name)
        service.env |= {
            "LOCAL_NODE_NAME": name,
            "LOCAL_NODE_SERVERS": ",".join(cluster.direct),
            "LOCAL_NODE_CREDENTIAL_FILE": str(folder.credential(name)),
            "LOCAL_NODE_DIR": str(folder.nodes / name),
            "LOCAL_NODE_READY_FILE": str(service.ready_file),
            **probes(service, "LOCAL_NODE_"),
            "LOCAL_NODE_DRAIN_S": str(NODE_DRAIN_S),
            "LOCAL_NODE_CHECKPOINTER": f"{sys.executable},-m,{CHECKPOINTER_MODULE}",
            **_checkpointer(folder, cluster, name),
        }
        made.append(service)
    return made


def checkpointer_name(node: str) -> str:
    """Return what the checkpointer of a node is called among the processes."""
    return f"{node}-checkpointer"


def _checkpointer(folder: Folder, cluster: ClusterFile, node: str) -> dict[str, str]:
    """Return the settings of a node's checkpointer, which the node starts itself: it dies with its node."""
    name = checkpointer_name(node)
    credentials = (
        {"CHECKPOINTER_STORE_CREDENTIALS_FILE": cluster.store_credentials}
        if cluster.store_credentials
        else {}
    )
    return credentials | {
        "CHECKPOINTER_NODE": node,
        "CHECKPOINTER_SERVERS": ",".join(cluster.direct),
        "CHECKPOINTER_CREDENTIAL_FILE": str(folder.credential(name)),
        "CHECKPOINTER_STORE": cluster.store,
        "CHECKPOINTER_PODS_DIR": str(folder.nodes / node / "pods"),
        "CHECKPOINTER_READY_FILE": str(folder.ready / name),
        "CHECKPOINTER_PROBES": f"{LOOPBACK}:0",
        "CHECKPOINTER_PROBES_URL_FILE": str(folder.probes / name),
    }


def prepare(folder: Folder, cluster: ClusterFile, name: str, module: str) -> Service:
    """Return a service of ours, started as the Python module `module`; what it must know is yet to be said."""
    service = Service(
        name,
        "manager",
        argv=(sys.executable, "-m", module),
        env=inherited(os.environ, traces=module in EXPORTING)
        | {MARK_VARIABLE: cluster.id, "PYTHONUNBUFFERED": "1"},
        log_file=folder.log(name),
    )
    service.ready_file = folder.ready / name
    service.probes_file = folder.probes / name
    service.on_parent_death = signal.SIGKILL
    return service


def probes(service: Service, prefix: str) -> dict[str, str]:
    """Return the variables by which a service has its probes on a free port, and says which."""
    return {
        f"{prefix}PROBES": f"{LOOPBACK}:0",
        f"{prefix}PROBES_URL_FILE": str(service.probes_file),
    }


def inherited(environ: Mapping[str, str], *, traces: bool = False) -> dict[str, str]:
    """Return what a process of ours inherits; with `traces` also where spans go, and who may bring them there."""
    kept = {name: environ[name] for name in KEPT_VARIABLES if name in environ}
    if traces:
        kept |= {name: value for name, value in environ.items() if name.startswith(TRACE_PREFIX)}
    return kept
