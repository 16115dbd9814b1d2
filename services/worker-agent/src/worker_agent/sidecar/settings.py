"""What a sidecar is told by its pod's form (`POD_…`)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

PREFIX = "POD_"


class SidecarSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a sidecar is, and who it is to ask for the rest."""

    name: str
    uid: str
    node: str
    """The Kubernetes node."""
    pool: str
    isolation: str
    """The class that the pod must have: checked from inside."""
    servers: Annotated[tuple[str, ...], Meta(min_length=1)]
    """Addresses of the NATS servers."""
    ca_file: str = ""
    """Certificates of the servers' authority; empty: they speak plain TCP."""
    enrol_dir: str = "/run/enrol"
    """Holds the credential with which pods ask for their own, and the token that says which pod asks."""
    workspace: str = "/workspace"
    checkpointer: bool = True
    """The node has a checkpointer."""
    drain_s: Annotated[float, Meta(gt=0)] = 25.0
    """Longest orderly end; the pod's grace is longer."""
    enrol_s: Annotated[float, Meta(gt=0)] = 120.0
    """How long a credential is asked for, seconds."""
    sandbox_s: Annotated[float, Meta(gt=0)] = 900.0
    """How long the sandbox's container may take to come up, its image's pull included, seconds."""
    # Read by `boot`, before settings are.
    own_dir: str = "/run/sidecar"
    socket: str = ""
    last_words: str = ""
