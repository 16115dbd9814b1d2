"""What routes are given beside what was asked: the tenant's client."""

from __future__ import annotations

from typing import Annotated, Any

from litestar.connection import ASGIConnection
from litestar.params import Parameter

from agent_sandbox import Client
from gateway.adapters.clients import TenantClient
from gateway.adapters.http.guard import LENT
from shared.ids import ID_LENGTH_MAX

_ID = f"^[A-Za-z0-9][A-Za-z0-9_-]{{7,{ID_LENGTH_MAX - 1}}}$"
SessionPath = Annotated[str, Parameter(pattern=_ID, description="Id of a session.")]
TaskPath = Annotated[str, Parameter(pattern=_ID, description="Id of a task.")]


async def provide_client(request: ASGIConnection[Any, Any, Any, Any]) -> Client:
    """Return the connected client of the request's tenant.

    Raises:
        ServiceError: no server could be reached, or it refuses the tenant's credential.
    """
    lent: TenantClient = request.scope["state"][LENT]
    return await lent.open()
