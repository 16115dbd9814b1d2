"""`/v1/pools`: pools and nodes."""

from __future__ import annotations

from litestar import get

from agent_sandbox import Client
from shared.messages import Message
from shared.views import PoolsAnswer


@get("/v1/pools")
async def list_pools(client: Client) -> PoolsAnswer:
    """Show all pools and nodes."""
    return await client.ask("pools", Message(), PoolsAnswer)


ROUTES = [list_pools]
