"""Settings of one node's checkpointer, read from `CHECKPOINTER_…` variables."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from shared.ids import parse_name
from shared.kube_names import node_token
from shared.limits import TRANSFER_BYTES_MAX

PREFIX: Final = "CHECKPOINTER_"


class CheckpointerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a checkpointer must know before it starts."""

    node: str
    """Its node's name. On Kubernetes as the cluster has it, dots and all."""
    servers: tuple[str, ...]
    """NATS servers."""
    ca_file: str | None = None
    """Certificates of the authorities that vouch for the servers, PEM; None: they speak plain TCP."""
    credential_file: str | None = None
    """File with its NATS user."""
    pods: Literal["local", "kubelet"] = "local"
    """Who starts the node's pods, and so where their folders are: a local node or Kubernetes' kubelet."""
    pods_dir: str
    """Where the node's pod directories are; it looks nowhere else. Of kubelet: its `pods`."""
    pod_logs_dir: str | None = None
    """kubelet's `podLogsDir`: it tells which pod has which folder. Needed with `kubelet`, like the next."""
    pods_namespace: str | None = None
    """Namespace of the worker pods: no pod of another one is ever looked at."""
    cache_dir: str | None = None
    """With `kubelet`, a folder of its own for what of each pod is saved already; None: each save reads all again."""
    workspace_uid: Annotated[int, Meta(ge=0, lt=1 << 32)] = 1000
    """With `kubelet`, whose the files of workspaces are: of the sandboxes' user, as the pods are started."""
    workspace_gid: Annotated[int, Meta(ge=0, lt=1 << 32)] = 2000
    """Likewise their group."""
    store: str = "nats"
    """Where packs lie: `nats` (in streams of those servers), `/folder` or `local:/folder` (that all nodes share), or
    `s3://bucket/prefix?endpoint=…&region=…`."""
    store_credentials_file: str | None = None
    """Of an S3 store: JSON with `access_key_id` and `secret_access_key`, mode 0600."""
    store_stall_s: Annotated[float, Meta(gt=0, le=3600)] = 60.0
    """Longest time for one call to a store that does not answer, all tries together."""
    saves_at_once: Annotated[int, Meta(ge=1, le=64)] = 2
    """Saves and rescues of this node that run at once; others wait."""
    restores_at_once: Annotated[int, Meta(ge=1, le=64)] = 4
    """Likewise restores, for which somebody waits."""
    transfer_bytes: Annotated[int, Meta(ge=1 << 20)] = TRANSFER_BYTES_MAX
    """Bytes of snapshots that are on their way between this node and its store at once, of all sessions together: what
    the buffers of its saves and restores may take of the node's memory."""
    age_bound_s: Annotated[float, Meta(gt=0)] = 90.0
    """A session that asked for a save and whose newest snapshot is older, seconds, is told as late."""
    look_s: Annotated[float, Meta(gt=0, le=3600)] = 60.0
    """Seconds between two looks at all workspaces for what nobody heard of, more or less."""
    ready_file: str | None = None
    """Exists exactly while it takes work."""
    probes: str | None = None
    """`host:port` of `/livez`, `/readyz` and `/metrics`, port 0 for a free one; None: there are none."""
    probes_url_file: str | None = None
    """Holds the URL of the probes while they are there."""
    beat_s: Annotated[float, Meta(gt=0, le=10)] = 0.5
    """Seconds between heartbeats."""
    drain_s: Annotated[float, Meta(gt=0, le=3600)] = 5.0
    """Seconds from SIGTERM to its end; what it saves by then is saved."""
    failpoints: str | None = None
    """Folder of placed faults, in tests."""
    log_level: str = "info"

    def __post_init__(self) -> None:
        """Check what types cannot.

        Raises:
            ValueError: a name that is none, or one that our subjects use; something that kubelet's pods need is missing.
        """
        if self.pods == "local":
            parse_name(self.node, "node")
        elif self.pod_logs_dir is None or self.pods_namespace is None:
            raise ValueError("pods: kubelet needs pod_logs_dir and pods_namespace")
        if self.subject_name == "any":
            raise ValueError("node: 'any' is taken by requests to whichever checkpointer is free")

    @property
    def subject_name(self) -> str:
        """The node's name as a token of subjects.

        Raises:
            InvalidMessage: no node is called so.
        """
        return node_token(self.node)
