"""Settings of a gateway, from variables that start with `GATEWAY_`."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

PREFIX = "GATEWAY_"

Port = Annotated[int, Meta(ge=0, le=65535)]
Seconds = Annotated[float, Meta(gt=0, le=3600)]
Count = Annotated[int, Meta(ge=1)]


class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a gateway must know."""

    name: str
    """For logs and statistics."""
    servers: tuple[str, ...]
    """Addresses of the client edges."""
    ca_file: str | None = None
    """Certificates of the authorities that vouch for them, PEM; None: they speak plain TCP."""
    tenants_file: str
    """JSON of `gateway.adapters.tenants.TenantsFile`, mode 0600: who may come in, and as whom. Read again when it changes."""
    host: str = "127.0.0.1"
    port: Port = 0
    hosts: tuple[str, ...] = ("localhost", "127.0.0.1", "[::1]")
    """Names under which it may be asked (`Host`), without ports. Other names are refused: a page of theirs could
    otherwise reach it through a name that it makes point here."""
    origins: tuple[str, ...] = ()
    """Web pages that may ask (`Origin`), such as `https://console.example`, beside those under its own name: for WebSockets,
    and where a proxy gives it another name than pages see. Answers of other sites stay closed to them: there is no CORS."""
    requests_per_s: Annotated[float, Meta(gt=0)] = 500.0
    """Requests of one tenant each second, in the long run; see `requests_burst`."""
    requests_burst: Count = 1000
    """Requests of one tenant at once, after a rest."""
    tenant_requests_max: Count = 512
    """Requests of one tenant that are answered at the same time; streams count as long as they last."""
    tenant_streams_max: Count = 256
    """Streams of one tenant's tasks that are open at the same time."""
    connections_max: Count = 1024
    """Connections at once. When all are taken, one that has no request under way makes room for a new one."""
    head_s: Seconds = 10.0
    """Longest time for a request's line and headers to arrive."""
    body_s: Seconds = 10.0
    """Longest wait for the next piece of a request's body, and beyond a bound of 4 KiB each second for all of it."""
    unread_s: Seconds = 30.0
    """A caller that takes nothing of an answer for so long is cut off."""
    idle_s: Seconds = 75.0
    """A connection without a request is closed after that."""
    drain_s: Seconds = 5.0
    """Time for requests under way when it is asked to leave; streams are ended, and go on at another gateway."""
    ready_file: str | None = None
    """Exists exactly while it is ready."""
    probes: str | None = None
    """`host:port` of `/livez`, `/readyz` and `/metrics`, port 0 for a free one; None: there are none."""
    probes_url_file: str | None = None
    """Holds the URL of the probes while they are there."""
    log_level: str = "info"
