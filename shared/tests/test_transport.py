"""The socket under a connection, with a server that reads nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest

from shared.bus.transport import Transport


@pytest.fixture
async def unread() -> AsyncIterator[Transport]:
    """A transport whose buffer is full: the server at its other end reads nothing."""
    leave = asyncio.Event()

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await leave.wait()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    made = Transport()
    await made.connect(urlsplit(f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"), 32768, 5)
    made.write(bytes(64 << 20))
    yield made
    made.abort()
    leave.set()
    server.close()


async def test_a_close_that_is_waited_for_again_ends_as_well(unread: Transport) -> None:
    """The first wait gives up, and with it what all wait for: nobody else is cancelled by that."""
    unread.close()

    await unread.wait_closed()
    await unread.wait_closed()


async def test_who_is_cancelled_while_he_waits_is_cancelled(unread: Transport) -> None:
    """Only what befell others is kept from him."""
    unread.close()
    waiting = asyncio.create_task(unread.wait_closed())
    await asyncio.sleep(0)
    waiting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await waiting
