"""All routes, joined to one application."""

from __future__ import annotations

from typing import Any

from litestar import Litestar
from litestar.di import Provide

from gateway.adapters.clients import Clients
from gateway.adapters.http import tasks
from gateway.adapters.http.deps import provide_client
from gateway.adapters.http.errors import HANDLERS
from gateway.adapters.http.guard import Guard
from gateway.adapters.tenants import Tenants
from gateway.settings import GatewaySettings
from shared import limits

ROUTES: list[Any] = [
    tasks.create_task,
    tasks.show_task,
]
"""One module for each kind of thing: a new one adds its routes here."""


def make_site(settings: GatewaySettings, tenants: Tenants, clients: Clients) -> Guard:
    """Return the whole application, its guard before it."""
    app = Litestar(
        ROUTES,
        dependencies={"client": Provide(provide_client)},
        exception_handlers=HANDLERS,
        openapi_config=None,
        request_max_body_size=limits.BODY_BYTES_MAX,
        logging_config=None,
        debug=False,
    )
    return Guard(app, settings, tenants, clients)
