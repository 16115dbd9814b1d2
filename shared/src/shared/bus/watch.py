"""Leaving a server that hangs: its socket stays open, so nothing but an unanswered question tells."""

from __future__ import annotations

import asyncio
import time

from shared import logs
from shared.bus.wire import Client

log = logs.get(__name__)

PROBE_S = 0.4
"""How long a server may take to answer a ping once a question stayed unanswered: a hung one is left within a second."""
MISSES_MAX = 2


class Watch:
    """Pings beside the library's own, which are rare on idle connections."""

    def __init__(self, client: Client) -> None:
        """Watch a connection."""
        self._client = client
        self._probing: asyncio.Task[None] | None = None

    def doubt(self) -> None:
        """A question stayed unanswered: find out whether the server hangs, and leave it then."""
        if self._client.usable and (self._probing is None or self._probing.done()):
            self._probing = asyncio.create_task(self._probe(), name="bus-probe")

    def stop(self) -> None:
        """End what runs."""
        if self._probing is not None:
            self._probing.cancel()

    async def _probe(self) -> None:
        if not await self._client.ping(PROBE_S):
            await self._leave()

    async def run(self, interval_s: float) -> None:
        """Ask for a sign of life every `interval_s`, for ever; after two misses leave the server."""
        misses = 0
        while True:
            began = time.monotonic()
            if not self._client.usable or await self._client.ping(interval_s):
                misses = 0
            else:
                misses += 1
                if misses >= MISSES_MAX:
                    await self._leave()
                    misses = 0
            await asyncio.sleep(max(0.0, began + interval_s - time.monotonic()))

    async def _leave(self) -> None:
        if self._client.usable:
            log.warning("bus.server_silent", name=self._client.options["name"])
            await self._client.force_reconnect()
