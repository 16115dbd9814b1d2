"""All routes, joined to one application."""

from __future__ import annotations

from functools import partial
from typing import Any

from litestar import Litestar
from litestar.di import Provide
from litestar.openapi import OpenAPIConfig

from gateway.adapters.clients import Clients
from gateway.adapters.http import (
    files,
    keeping,
    letters,
    objects,
    openapi,
    output,
    pools,
    session_tasks,
    sessions,
    tasks,
    terminals,
    trees,
    tti,
)
from gateway.adapters.http.deps import provide_client
from gateway.adapters.http.errors import HANDLERS, note_socket
from gateway.adapters.http.guard import Guard
from gateway.adapters.http.streams import Streams
from gateway.adapters.measuring import Meter
from gateway.adapters.tenants import Tenants
from gateway.settings import GatewaySettings
from shared import limits

ROUTES: list[Any] = [
    *sessions.ROUTES,
    *session_tasks.ROUTES,
    *tasks.ROUTES,
    *output.ROUTES,
    *terminals.ROUTES,
    *files.ROUTES,
    *trees.ROUTES,
    *keeping.ROUTES,
    *pools.ROUTES,
    *letters.ROUTES,
    *tti.ROUTES,
    *objects.ROUTES,
]
"""One module for each kind of thing: a new one adds its routes here."""


def make_app(
    meter: Meter, streams: Streams, *, openapi_config: OpenAPIConfig | None = None
) -> Litestar:
    """Return the application without its guard: routes, their client, their errors."""
    return Litestar(
        [*ROUTES, openapi.route_of(partial(make_app, meter, streams))],
        dependencies={
            "client": Provide(provide_client),
            "meter": Provide(lambda: meter, sync_to_thread=False),
            "streams": Provide(lambda: streams, sync_to_thread=False),
        },
        exception_handlers=HANDLERS,
        after_exception=[note_socket],
        openapi_config=openapi_config,
        request_max_body_size=limits.BODY_BYTES_MAX,
        logging_config=None,
        debug=False,
    )


def make_site(
    settings: GatewaySettings, tenants: Tenants, clients: Clients, meter: Meter, streams: Streams
) -> Guard:
    """Return the whole application, its guard before it."""
    return Guard(make_app(meter, streams), settings, tenants, clients)
