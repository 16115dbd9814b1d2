"""What routes are given beside what was asked: the tenant's client, the gateway's meter and streams."""

from __future__ import annotations

from typing import Any

from litestar import Request
from litestar.di import NamedDependency

from agent_sandbox import Client
from gateway.adapters.clients import TenantClient
from gateway.adapters.http.guard import LENT
from gateway.adapters.http.streams import Streams
from gateway.adapters.measuring import Meter

AnyRequest = Request[Any, Any, Any]
ItsClient = NamedDependency[Client]
"""The connected client of the request's tenant."""
ItsMeter = NamedDependency[Meter]
"""What measures for this gateway's callers."""
ItsStreams = NamedDependency[Streams]
"""What the gateway's streams have in common."""


async def provide_client(request: AnyRequest) -> Client:
    """Return the connected client of the request's tenant.

    Raises:
        ServiceError: no server could be reached, or it refuses the tenant's credential.
    """
    lent: TenantClient = request.scope["state"][LENT]
    return await lent.open()
