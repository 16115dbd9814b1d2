"""What each tenant may have of an edge, before real servers."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
import structlog

from shared import subjects
from shared.bus import Bus
from shared.errors import Unavailable
from shared.identity import roles
from shared.testing.wait import until

Crowd = Any
"""Clients of two tenants before edges that give each tenant little (conftest.py)."""


async def test_a_tenant_has_no_more_than_its_connections(crowd: Crowd) -> None:
    """The next one is turned away and told why; another tenant is let in, and so is this one when one has left."""
    first, second = await crowd.client(), await crowd.client()
    with pytest.raises(Unavailable, match="more than 2 connections of one tenant"):
        await crowd.client(deadline_s=0.5)
    stranger = await crowd.client(1)
    await second.close()
    third = await crowd.client()

    for client in (first, third, stranger):
        assert await client.probe(timeout_s=5)
        await client.close()


def send_half(client: Bus, tenant: str, size: int, sent: int) -> bytes:
    """Send a part of a message, as a client on a slow line does; return the rest."""
    subject = subjects.task(tenant, "default", "batch")
    message = f"PUB {subject} {size}\r\n".encode() + b" " * size + b"\r\n"
    transport: Any = client._link.client._transport
    transport.write(message[:sent])
    return message[sent:]


async def test_a_tenant_holds_no_more_than_its_half_sent_messages(crowd: Crowd) -> None:
    """The connection that passes the bound is ended; the other's message still arrives, and another tenant's does."""
    mine, theirs = crowd.tenants
    first, second, stranger = await crowd.client(), await crowd.client(), await crowd.client(1)
    lost = asyncio.Event()
    second.on_lost = lost.set
    with structlog.testing.capture_logs() as lines:
        rest = send_half(first, mine, 80_000, 70_000)
        other = send_half(stranger, theirs, 80_000, 70_000)
        await asyncio.sleep(0.2)  # it is held: nothing tells so
        assert not lost.is_set()
        send_half(second, mine, 80_000, 70_000)
        async with asyncio.timeout(15):
            await lost.wait()
    for client, end in ((first, rest), (stranger, other)):
        transport: Any = client._link.client._transport
        transport.write(end)
        assert await client.probe(timeout_s=5)
        assert client.connected

    assert [line["event"] for line in lines if line["event"].startswith("tenant.")] == [
        "tenant.half_sent"
    ]
    assert f"{mine}: more than 100000 bytes" in str(lines)
    for client in (first, second, stranger):
        await client.close()


async def test_a_connection_stays_its_tenants(crowd: Crowd) -> None:
    """A credential is renewed many times and counts once; another tenant's is not taken on a connection that there is."""
    client = await crowd.client()
    signer = crowd.edges.cluster.identity.client_signer
    for _ in range(3):
        await client.use_credential(
            signer.mint("c", roles.publisher(crowd.tenants[0]), by_edge=True)
        )
        assert await client.probe(timeout_s=5)
    with structlog.testing.capture_logs() as lines:
        foreign = signer.mint("c", roles.publisher(crowd.tenants[1]), by_edge=True)
        transport: Any = client._link.client._transport
        transport.write(b"CONNECT " + msgspec.json.encode({"jwt": foreign.jwt}) + b"\r\n")
        await until(lambda: "a credential of another tenant" in str(lines))
    await client.close()
