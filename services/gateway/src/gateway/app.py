"""Builds a gateway: reads the tenants, listens, follows the tenants' file, leaves."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from gateway.adapters.clients import Clients
from gateway.adapters.http.counted import Counted
from gateway.adapters.http.site import make_site
from gateway.adapters.http.streams import Streams
from gateway.adapters.http.wire import make_server
from gateway.adapters.measuring import Meter
from gateway.adapters.tenants import Tenants
from gateway.settings import GatewaySettings
from shared import logs
from shared.errors import ServiceError, Unavailable
from shared.metrics import DECLARED, Book, declared
from shared.probes import Health, ServerWatch, place_of, probed
from shared.service import Stop

log = logs.get(__name__)

LISTEN_S = 5.0
POLL_S = 0.02
FOLLOW_S = 1.0
REMIND_S = 60.0
"""While the tenants' file can't be read, the log says so as often."""


async def run(settings: GatewaySettings, stop: Stop, *, traced: bool = False) -> None:
    """Be a gateway until `stop` is set; then end what is under way within its time.

    Args:
        settings: of this gateway.
        stop: set when it is to leave.
        traced: make a span of each request.

    Raises:
        ServiceError: the tenants' file can't be used, or nothing can listen there.
    """
    health, book = Health(settings.ready_file), Book(DECLARED["gateway"])
    watch = ServerWatch([place_of(url) for url in settings.servers])
    health.require("server", watch.problem)
    async with probed(health, book, address=settings.probes, url_file=settings.probes_url_file):
        await watch.look()
        watching = asyncio.create_task(watch.run(), name="server-watch")
        try:
            await _serve(settings, stop, (health, book), traced=traced)
        finally:
            watching.cancel()


async def _serve(
    settings: GatewaySettings, stop: Stop, seen: tuple[Health, Book], *, traced: bool
) -> None:
    health, book = seen
    tenants = Tenants(Path(settings.tenants_file))
    tenants.refresh()
    ca = Path(settings.ca_file) if settings.ca_file else None
    clients = Clients(tenants, settings.servers, ca)
    meter = Meter(settings.name)
    streams = Streams(
        settings.tenant_streams_max, lambda count: book.set(declared.GATEWAY_STREAMS, value=count)
    )
    site: Any = Counted(make_site(settings, tenants, clients, meter, streams), book)
    if traced:
        from shared.telemetry.http import HttpSpans  # noqa: PLC0415 - only where it is asked for

        site = HttpSpans(site)
    server = make_server(site, settings)
    serving = asyncio.create_task(server._serve(), name="server")
    try:
        await _listens(server, serving)
        health.begin()
        log.info(
            "gateway.ready", host=settings.host, port=settings.port, tenants=len(tenants.known)
        )
        health.remark("tenants", lambda: tenants.problem)
        looks = 0
        _count(book, tenants)
        while not await stop.wait(FOLLOW_S):
            looks += 1
            await _follow(tenants, clients, remind=looks % int(REMIND_S / FOLLOW_S) == 0)
            _count(book, tenants)
            if serving.done():
                break
    finally:
        health.leave()
        streams.leave()
        server.should_exit = True
        await asyncio.wait({serving}, timeout=settings.drain_s + 1.0)
        serving.cancel()
        await asyncio.wait({serving}, timeout=1.0)
        await meter.close()
        await clients.close()
    if serving.done() and not serving.cancelled():  # else what was under way ends with us
        serving.result()


async def _listens(server: object, serving: asyncio.Task[None]) -> None:
    try:
        async with asyncio.timeout(LISTEN_S):
            while not getattr(server, "started", False):
                if serving.done():
                    serving.result()
                    raise Unavailable("the server ended at its start")
                await asyncio.sleep(POLL_S)
    except TimeoutError as exc:
        raise Unavailable(f"nothing listens after {LISTEN_S:g} s") from exc


async def _follow(tenants: Tenants, clients: Clients, *, remind: bool) -> None:
    """Let in whom the tenants' file names; where it can't be read, whom it named last: that shuts nobody out."""
    try:
        if tenants.refresh():
            log.info("tenants.read", tenants=len(tenants.known))
            await clients.forget_unknown()
    except ServiceError:
        remind = True
    if tenants.problem and remind:
        log.error("tenants.not_read", error=tenants.problem, still_known=len(tenants.known))


def _count(book: Book, tenants: Tenants) -> None:
    book.set(declared.GATEWAY_TENANTS, value=len(tenants.known))
    book.set(declared.GATEWAY_TENANTS_OLD, value=float(bool(tenants.problem)))
