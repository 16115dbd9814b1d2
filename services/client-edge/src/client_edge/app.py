"""Builds an edge: listens, relays, leaves."""

from __future__ import annotations

import asyncio
import resource
from pathlib import Path

import msgspec

from client_edge.adapters.relay import Relay
from client_edge.adapters.tls import read_sides
from client_edge.core.shares import Shares
from client_edge.loops.count import count
from client_edge.settings import EdgeSettings
from shared import logs
from shared.errors import InvalidMessage
from shared.identity import Key
from shared.metrics import DECLARED, Book
from shared.probes import Health, ServerWatch, probed
from shared.service import Stop

log = logs.get(__name__)

OTHER_FILES = 64
"""Open files beside the two of each client."""


async def run(settings: EdgeSettings, stop: Stop) -> None:
    """Be an edge until `stop` is set; then cut its clients, who go to another one.

    Raises:
        InvalidMessage: the key's file is damaged.
        Rejected: a file for TLS is.
        OSError: it can not listen there.
    """
    connections_max = allow_files(settings.connections_max)
    shares = Shares(settings.tenant_connections_max, settings.tenant_half_sent_bytes_max)
    place = (settings.server_host, settings.server_port)
    sides = None if settings.tls_files is None else read_sides(*settings.tls_files)
    relay = Relay(place, read_key(Path(settings.key_file)), connections_max, shares, sides)
    health, book = Health(settings.ready_file), Book(DECLARED["client-edge"])
    watch = ServerWatch([place])
    health.require("server", watch.problem)
    probes = {"address": settings.probes, "url_file": settings.probes_url_file}
    async with probed(health, book, **probes), asyncio.TaskGroup() as group:
        aside = [group.create_task(watch.run()), group.create_task(count(relay, book))]
        listening = await asyncio.get_running_loop().create_server(
            relay.accept, settings.host, settings.listen_port
        )
        await watch.look()
        health.begin()
        log.info("edge.ready", port=settings.listen_port, server=settings.server_port)
        try:
            await stop.wait()
        finally:
            health.leave()
            listening.close()
            relay.abort()
            for task in aside:
                task.cancel()


def allow_files(connections_max: int) -> int:
    """Raise this process' bound of open files as far as so many clients need; return how many it is enough for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * connections_max + OTHER_FILES
    unbounded = resource.RLIM_INFINITY
    if soft != unbounded and soft < wanted:
        soft = wanted if hard == unbounded else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == unbounded or soft >= wanted:
        return connections_max
    fits = max((soft - OTHER_FILES) // 2, 1)
    log.warning("edge.few_files", open_files_max=soft, connections_max=fits)
    return fits


def read_key(path: Path) -> Key:
    """Read the key that signs connections.

    Raises:
        InvalidMessage: the file is damaged.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Key)
    except (msgspec.DecodeError, msgspec.ValidationError) as exc:
        raise InvalidMessage(f"{path} holds no key: {exc}") from exc
