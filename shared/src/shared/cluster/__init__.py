"""Real nats-servers of our own: rendering their configuration, starting, stopping and disturbing them."""

from shared.cluster.binary import find_binary
from shared.cluster.cluster import Cluster, open_cluster
from shared.cluster.config import ServerLimits, ServerSettings, TlsFiles, Trust, render
from shared.cluster.errors import ClusterFailed
from shared.cluster.layout import Layout, open_layout
from shared.cluster.server import ServerProcess, running_pid

__all__ = [
    "Cluster",
    "ClusterFailed",
    "Layout",
    "ServerLimits",
    "ServerProcess",
    "ServerSettings",
    "TlsFiles",
    "Trust",
    "find_binary",
    "open_cluster",
    "open_layout",
    "render",
    "running_pid",
]
