"""The relay before servers that are none: what clients and servers can not make it do."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
import structlog

from client_edge import app
from client_edge.adapters.relay import Relay
from client_edge.core.shares import Shares
from shared.cluster.ports import LOOPBACK
from shared.identity import make_key
from shared.testing.wait import until

INFO = b'INFO {"max_payload":1024,"nonce":"n"}\r\n'
FORBIDDEN = b"HPUB a 24 24\r\nNATS/1.0\r\nNats-TTL:1\r\n\r\n\r\n"


@asynccontextmanager
async def relayed(greeting: bytes) -> AsyncIterator[tuple[Relay, int]]:
    """Yield a relay before a server that says `greeting` and nothing else, and the relay's port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        with suppress(ConnectionError):
            await reader.read()  # until it is left
        writer.close()

    async with await asyncio.start_server(serve, LOOPBACK, 0) as server:
        place = (LOOPBACK, server.sockets[0].getsockname()[1])
        relay = Relay(place, make_key("account"), 8, Shares(8, 4096))
        loop = asyncio.get_running_loop()
        async with await loop.create_server(relay.accept, LOOPBACK, 0) as listening:
            yield relay, listening.sockets[0].getsockname()[1]
            relay.abort()
            await until(lambda: not relay.open)


async def test_a_client_of_a_server_that_hangs_is_sent_away() -> None:
    """It goes to another edge; nothing of it stays here, also where it has gone itself without a word."""
    async with relayed(b"") as (relay, port):
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        _, leaver = await asyncio.open_connection(LOOPBACK, port)
        leaver.close()
        async with asyncio.timeout(15):
            assert await reader.read() == b""
        await until(lambda: not relay.open and not relay.dialling)
        writer.close()


async def test_what_clients_do_wrong_is_counted_and_logged_once_in_a_while() -> None:
    """Thousands of refused messages must not fill a disk."""
    async with relayed(INFO) as (_, port):
        with structlog.testing.capture_logs() as lines:
            reader, writer = await asyncio.open_connection(LOOPBACK, port)
            assert await reader.readline() == INFO
            for _ in range(20):
                writer.write(FORBIDDEN)
                await writer.drain()
                await asyncio.sleep(0)
            writer.write(b"nonsense\r\n")
            assert await reader.read() == b""
        writer.close()

    assert [line["event"] for line in lines] == ["message.refused", "client.broken"]


async def test_half_sent_messages_of_those_who_have_not_said_who_they_are_are_bounded() -> None:
    """Together, as one tenant's: strangers can not fill the memory. Whoever passes the bound is told, and only he."""
    async with relayed(INFO) as (relay, port):
        clients = [await asyncio.open_connection(LOOPBACK, port) for _ in range(6)]
        for number, (reader, writer) in enumerate(clients):
            assert await reader.readline() == INFO
            writer.write(b"PUB a 900\r\n" + b"x" * 700)
            held = min(number + 1, 5) * 711
            await until(lambda held=held: relay.half_sent_bytes >= held)
        async with asyncio.timeout(15):
            said = await clients[-1][0].read()
        await until(lambda: len(relay.open) == len(clients) - 1)
        for _, writer in clients:
            writer.close()

    assert relay.refused == {"tenant.half_sent": 1}
    assert said == b"-ERR 'more than 4096 bytes of half-sent messages of one tenant'\r\n"


def test_open_files_are_enough_for_all_clients_or_fewer_are_let_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two of them for each client; the bound that was asked for is not a promise that breaks at half of it."""
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda _, bounds: asked.append(bounds))
    for bounds, expected in (
        ((256, 4096), 512),
        ((256, 512), (512 - app.OTHER_FILES) // 2),
        ((4096, 4096), 512),
        ((256, resource.RLIM_INFINITY), 512),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), 512),
    ):
        monkeypatch.setattr(resource, "getrlimit", lambda _, bounds=bounds: bounds)
        assert app.allow_files(512) == expected
    wanted = 2 * 512 + app.OTHER_FILES
    assert asked == [(wanted, 4096), (512, 512), (wanted, resource.RLIM_INFINITY)]
