"""Settings of a keeper, read from `KEEPER_…` variables."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

PREFIX: Final = "KEEPER_"


class KeeperSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a keeper must know."""

    name: str
    """Of this replica."""
    pool: str
    """Whose volume it keeps."""
    servers: Annotated[tuple[str, ...], Meta(min_length=1)]
    """NATS servers."""
    ca_file: str | None = None
    """Certificates of the authorities that vouch for the servers, PEM; None: they speak plain TCP."""
    credential_file: str | None = None
    """File with its NATS user (role `keeper`). Read again when it ends soon."""
    volume: str = "/volume"
    """Where the whole volume is mounted."""
    look_s: Annotated[float, Meta(gt=0, le=3600)] = 60.0
    """Seconds between two looks at all that lies there."""
    ready_file: str | None = None
    """Exists exactly while it takes work."""
    probes: str | None = None
    """`host:port` of `/livez`, `/readyz` and `/metrics`; None: there are none."""
    probes_url_file: str | None = None
    """Holds the URL of the probes while they are there."""
    log_level: str = "info"
