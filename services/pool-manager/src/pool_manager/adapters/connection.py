"""A pool-manager's connections, each under the newest credential of its file."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pool_manager.settings import PoolSettings
from shared.bus import Bus, BusOptions, Tls
from shared.bus.renewal import follow_file
from shared.bus.types import Tracer
from shared.errors import Unavailable
from shared.identity import read_credential
from shared.service import Stop

CONNECT_ONCE_S = 2.0


def _options(
    settings: PoolSettings, name: str, credential: str, tracer: Tracer | None
) -> BusOptions:
    # Read again at each connect: whoever started the service renews it.
    return BusOptions(
        servers=settings.nats_servers,
        name=name,
        credential=lambda: read_credential(Path(credential)),
        tls=None if settings.nats_ca_file is None else Tls(ca_file=settings.nats_ca_file),
        tracer=tracer,
    )


@asynccontextmanager
async def connection(
    settings: PoolSettings,
    name: str,
    credential: str,
    stop: Stop,
    tracer: Tracer | None = None,
) -> AsyncIterator[Bus]:
    """Connect, however long the servers take to come up within `connect_s`, unless the service is to leave.

    Raises:
        Unavailable: no server took the connection.
    """
    bus = await _connect(_options(settings, name, credential, tracer), settings.connect_s, stop)
    following = asyncio.create_task(follow_file(bus, Path(credential)), name="credential")
    try:
        yield bus
    finally:
        following.cancel()
        await bus.close()


async def _connect(options: BusOptions, within_s: float, stop: Stop) -> Bus:
    end_at = time.monotonic() + within_s
    while True:
        try:
            return await Bus.connect(options, deadline_s=min(CONNECT_ONCE_S, within_s))
        except Unavailable:
            if stop.is_set or time.monotonic() >= end_at:
                raise
