"""Connections: how many, how long a request's head may take and how large it may be; uvicorn bounds neither."""

from __future__ import annotations

import asyncio
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gateway.settings import GatewaySettings

HEAD_BYTES_MAX = 32 * 1024
"""A request's line and headers."""
MESSAGE_BYTES_MAX = 64 * 1024
"""One message of a WebSocket's client."""


def make_server(app: Any, settings: GatewaySettings) -> uvicorn.Server:
    """Return a server of `app`, to be run by `_serve`: signals are the service's business."""
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=HttpToolsProtocol,
        ws="websockets-sansio",
        ws_max_size=MESSAGE_BYTES_MAX,
        ws_per_message_deflate=False,  # a window for each connection costs more than it saves
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=int(settings.idle_s),
        timeout_graceful_shutdown=max(1, int(settings.drain_s)),
    )
    return uvicorn.Server(config)


async def close_when(stop: asyncio.Event, server: uvicorn.Server) -> None:
    """Ask the server to end once `stop` is set."""
    await stop.wait()
    server.should_exit = True
