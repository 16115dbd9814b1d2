"""What routes are given beside what was asked: the tenant's client."""

from __future__ import annotations

from typing import Any

from litestar import Request

from agent_sandbox import Client
from gateway.adapters.clients import TenantClient
from gateway.adapters.http.guard import LENT

AnyRequest = Request[Any, Any, Any]


async def provide_client(request: AnyRequest) -> Client:
    """Return the connected client of the request's tenant.

    Raises:
        ServiceError: no server could be reached, or it refuses the tenant's credential.
    """
    lent: TenantClient = request.scope["state"][LENT]
    return await lent.open()
