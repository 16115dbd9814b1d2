"""Settings of a client edge, from variables that start with `EDGE_`."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from shared import limits

PREFIX = "EDGE_"

Port = Annotated[int, Meta(ge=0, le=65535)]


class EdgeSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an edge must know."""

    name: str
    """For logs."""
    listen_port: Port
    """Where clients connect, on `host`."""
    server_port: Port
    """The NATS server's port for clients, on `server_host`."""
    key_file: str
    """JSON of `shared.identity.Key`: what its connections are signed with."""
    host: str = "127.0.0.1"
    server_host: str = "127.0.0.1"
    connections_max: Annotated[int, Meta(ge=1)] = 1024
    """Clients at once; further ones are turned away."""
    tenant_connections_max: Annotated[int, Meta(ge=1)] = limits.TENANT_CONNECTIONS_MAX
    """Clients of one tenant at once; further ones are turned away, with the reason."""
    tenant_half_sent_bytes_max: Annotated[int, Meta(ge=1)] = limits.TENANT_HALF_SENT_BYTES_MAX
    """Bytes of one tenant's messages that are here in part; the connection that passes it is ended, with the reason."""
    tls_ca_file: str | None = None
    """Certificates of the authorities that vouch for the server, PEM. None: neither side is encrypted."""
    tls_cert_file: str | None = None
    """What clients are shown, PEM."""
    tls_key_file: str | None = None
    """Its key, PEM."""
    ready_file: str | None = None
    """Exists exactly while it is ready."""
    probes: str | None = None
    """`host:port` of `/livez`, `/readyz` and `/metrics`, port 0 for a free one; None: there are none."""
    probes_url_file: str | None = None
    """Holds the URL of the probes while they are there."""
    log_level: str = "info"

    def __post_init__(self) -> None:
        """Check what types cannot.

        Raises:
            ValueError: some of the files for TLS, and not all.
        """
        files = (self.tls_ca_file, self.tls_cert_file, self.tls_key_file)
        if any(files) and not all(files):
            raise ValueError("tls_ca_file, tls_cert_file and tls_key_file belong together")

    @property
    def tls_files(self) -> tuple[str, str, str] | None:
        """Authorities, certificate, key; None: nothing is encrypted."""
        if self.tls_ca_file and self.tls_cert_file and self.tls_key_file:
            return self.tls_ca_file, self.tls_cert_file, self.tls_key_file
        return None
