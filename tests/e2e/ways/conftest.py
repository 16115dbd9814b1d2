"""Four ways to one cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from agent_sandbox import Client, ClientOptions, SyncClient
from agent_sandbox.embedded.folder import Folder
from shared.testing.threaded import Threaded


class Way:
    """One of the four ways to a cluster: straight on NATS or through gateways, with an event loop or without."""

    def __init__(self, name: str, folder: Folder) -> None:
        """Name it."""
        self.is_http, self.is_sync = "http" in name, "sync" in name
        servers = folder.read().gateways if self.is_http else ()
        self.options = ClientOptions(state=folder.path, servers=servers)

    def make(self, **options: Any) -> Any:
        """Return a client, not connected, with some options other than usual."""
        given = msgspec.structs.replace(self.options, **options)
        return Threaded(SyncClient(given)) if self.is_sync else Client(given)


@pytest.fixture(
    params=["nats", "http", "sync-nats", pytest.param("sync-http", marks=pytest.mark.slow)]
)
def way(request: pytest.FixtureRequest, embedded: Folder) -> Way:
    """Each of the four; the last one is made of parts that the others show, and is left to the slow run."""
    return Way(request.param, embedded)


@pytest.fixture
async def caller(way: Way) -> AsyncIterator[Any]:
    """A connected client on each of the four ways; the synchronous one looks like its async twin."""
    async with way.make() as connected:
        yield connected
