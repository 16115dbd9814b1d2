"""Settings of one node, read from `LOCAL_NODE_…` variables."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from shared.ids import parse_name
from shared.pools import ISOLATION_CLASSES


class NodeSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a node must know before it starts."""

    name: str
    """The node's name, a token of its subjects."""
    dir: str
    """Where pod directories are. One process at a time holds it."""
    servers: tuple[str, ...] = ()
    """NATS servers; every pod's sidecar gets them too unless its spec names others."""
    credential_file: str | None = None
    """File with the node's NATS user."""
    ready_file: str | None = None
    """Exists exactly while the node takes pods."""
    probes: str | None = None
    """`host:port` of `/livez`, `/readyz` and `/metrics`, port 0 for a free one; None: there are none."""
    probes_url_file: str | None = None
    """Holds the URL of the probes while they are there."""
    checkpointer: tuple[str, ...] = ()
    """Command of the node's checkpointer, which it keeps running; empty: it keeps none. It inherits the node's
    environment, hence its own settings."""
    pods_max: Annotated[int, Meta(ge=1, le=2000)] = 256
    """Pods at once."""
    starting_max: Annotated[int, Meta(ge=1, le=256)] = 8
    """Pods in start at once; the others wait. More only makes each of them slower."""
    offered: tuple[str, ...] = ISOLATION_CLASSES
    """Isolation classes that may be used at all; what this machine has of them is found by trying."""
    sidecar_module: str = "worker_agent"
    """Module that provides `run_forked` (itself or in its `__main__`) and, if it likes, `preload`."""
    runner_module: str = "sandbox_runner"
    """Module that provides `main(channel_fd, workspace)`; standard library only."""
    sandbox_python: str | None = None
    """Interpreter for sandboxes, absolute path; without it the one below the node's own environment."""
    read_only: tuple[str, ...] = ()
    """Further host paths that sandboxes may read."""
    tmp_mib: Annotated[int, Meta(ge=1, le=65536)] = 64
    """Size of /tmp where a sandbox has its own, MiB; counts as the sandbox's memory."""
    beat_s: Annotated[float, Meta(gt=0, le=10)] = 0.5
    """Seconds between heartbeats."""
    linger_s: Annotated[float, Meta(ge=0, le=3600)] = 60.0
    """Seconds that a sidecar may outlive its sandbox to save what it holds."""
    dead_kept_s: Annotated[float, Meta(ge=0, le=86400)] = 900.0
    """Seconds for which the files of an ended pod are kept unless it is deleted before: longer than any rescue takes (690 s)."""
    drain_s: Annotated[float, Meta(gt=0, le=3600)] = 20.0
    """Seconds from SIGTERM to the node's end; sidecars get two thirds of it to hand over."""
    log_level: str = "info"

    def __post_init__(self) -> None:
        """Check what types cannot.

        Raises:
            ValueError: a name that is none.
        """
        parse_name(self.name, "name")
        unknown = set(self.offered) - set(ISOLATION_CLASSES)
        if unknown:
            raise ValueError(f"offered: unknown classes {sorted(unknown)}")
