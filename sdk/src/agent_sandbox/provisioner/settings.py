"""Settings of the provisioner, from variables that start with `PROVISIONER_`."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from agent_sandbox import places
from shared.ids import parse_name

PREFIX = "PROVISIONER_"

Seconds = Annotated[float, Meta(gt=0, le=365 * 24 * 3600)]


class ProvisionerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the provisioner must know."""

    name: str = "provisioner"
    """For logs."""
    namespace: str
    """Where servers and services run."""
    pods_namespace: str
    """Where workers run."""
    nodes_namespace: str
    """Where checkpointers run."""
    servers: Annotated[int, Meta(ge=1, le=9)] = 3
    """NATS servers: pods `nats-0` to the last of the StatefulSet `nats`."""
    cluster_domain: str = "cluster.local"
    """The cluster's DNS domain, for certificates."""
    tenants: Annotated[tuple[str, ...], Meta(min_length=1)] = (places.TENANT,)
    """Who gets a credential and a token for the gateways, in a Secret `tenant-NAME`."""
    client_names: tuple[str, ...] = ()
    """Names and addresses under which clients from outside reach the edges; they go into the servers' certificate."""
    valid_s: Seconds = 24 * 3600.0
    """Life of services' credentials; they are renewed at half of it."""
    certificate_valid_s: Seconds = 90 * 24 * 3600.0
    """Life of the servers' certificate; it is renewed at half of it, by a rolling restart of the servers."""
    every_s: Annotated[float, Meta(gt=0, le=600)] = 5.0
    """Between two looks at everything."""
    ready_file: str | None = None
    """Exists exactly while all is in place."""
    probes: str | None = None
    """`host:port` of `/livez`, `/readyz` and `/metrics`, port 0 for a free one; None: there are none."""
    probes_url_file: str | None = None
    """Holds the URL of the probes while they are there."""
    log_level: str = "info"

    def __post_init__(self) -> None:
        """Check what types cannot.

        Raises:
            ValueError: a tenant's name that is none.
        """
        for tenant in self.tenants:
            parse_name(tenant, "tenants")
