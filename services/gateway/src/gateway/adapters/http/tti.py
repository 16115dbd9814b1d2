"""`/v1/tti`: how soon user code ran, as this gateway measured it for its callers."""

from __future__ import annotations

from litestar import get

from gateway.adapters.clients import TenantClient
from gateway.adapters.http.deps import AnyRequest, ItsMeter
from gateway.adapters.http.described import says
from gateway.adapters.http.guard import LENT
from shared.rest import TtiAnswer


@get("/v1/tti", opt=says({200: TtiAnswer}))
async def show_tti(request: AnyRequest, meter: ItsMeter) -> TtiAnswer:
    """Show the last times to interactive of this tenant's tasks, and their percentiles, by pool and path.

    Each gateway has measured what came in through it.
    """
    lent: TenantClient = request.scope["state"][LENT]
    return meter.answer(lent.tenant)


ROUTES = [show_tti]
