"""A worker's own probes. Imported only where they are wished: a worker that waits must stay small."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from shared.bus import Bus
from shared.metrics import DECLARED, Book
from shared.probes import Health, nats_problem, note_contact_often, probed

CONTACT_S = 25.0
"""An idle worker asks its server for a sign of life every 10 s, and leaves it after two misses."""


@asynccontextmanager
async def answering(address: str, bus: Bus) -> AsyncIterator[None]:
    """Answer probes while inside.

    Raises:
        Rejected: it can not listen there.
    """
    health, book = Health(), Book(DECLARED["worker-agent"])
    health.require("nats", nats_problem(bus, contact_s=CONTACT_S))
    async with probed(health, book, address=address, url_file=None):
        health.begin()
        noting = asyncio.create_task(note_contact_often(book, bus))
        try:
            yield
        finally:
            noting.cancel()
