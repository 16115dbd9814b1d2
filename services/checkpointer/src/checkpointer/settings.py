"""Settings of one node's checkpointer, read from `CHECKPOINTER_…` variables."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from shared.ids import parse_name

PREFIX: Final = "CHECKPOINTER_"


class CheckpointerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a checkpointer must know before it starts."""

    node: str
    """Its node's name, a token of its subjects."""
    servers: tuple[str, ...]
    """NATS servers."""
    credential_file: str | None = None
    """File with its NATS user."""
    pods_dir: str
    """Where the node's pod directories are; it looks nowhere else."""
    store: str = "nats"
    """Where packs lie: `nats` (in streams of those servers), `local:/folder` (that all nodes share), or
    `s3://bucket/prefix?endpoint=…&region=…`."""
    store_credentials_file: str | None = None
    """Of an S3 store: JSON with `access_key_id` and `secret_access_key`, mode 0600."""
    store_stall_s: Annotated[float, Meta(gt=0, le=3600)] = 60.0
    """Longest time for one call to a store that does not answer, all tries together."""
    saves_at_once: Annotated[int, Meta(ge=1, le=64)] = 2
    """Saves and rescues of this node that run at once; others wait."""
    restores_at_once: Annotated[int, Meta(ge=1, le=64)] = 4
    """Likewise restores, for which somebody waits."""
    age_bound_s: Annotated[float, Meta(gt=0)] = 90.0
    """A session that asked for a save and whose newest snapshot is older, seconds, is told as late."""
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
            ValueError: a name that is none, or one that our subjects use.
        """
        parse_name(self.node, "node")
        if self.node == "any":
            raise ValueError("node: 'any' is taken by requests to whichever checkpointer is free")
