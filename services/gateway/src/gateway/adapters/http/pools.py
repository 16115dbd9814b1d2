"""`/v1/pools`: pools and nodes."""

from __future__ import annotations

from litestar import get

from gateway.adapters.http.deps import ItsClient
from gateway.adapters.http.described import says
from shared.messages import Message
from shared.views import PoolsAnswer


@get("/v1/pools", opt=says({200: PoolsAnswer}))
async def list_pools(client: ItsClient) -> PoolsAnswer:
    """Show all pools and nodes."""
    return await client.ask("pools", Message(), PoolsAnswer)


ROUTES = [list_pools]
