"""Edges before real servers: what clients can do through them, and that there is no other way in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import nats
import pytest
import structlog

from client_edge import app
from client_edge.settings import EdgeSettings
from shared import limits, subjects
from shared.bus import Bus, BusOptions
from shared.cluster import Cluster
from shared.errors import Forbidden, Unavailable
from shared.identity import Credential, make_key, roles, write_credential, write_secret
from shared.service import Stop
from shared.testing.names import unique
from shared.testing.plugin import Connect
from shared.testing.wait import until

HEADERS = {
    "Nats-Expected-Last-Msg-Id": "nobody",  # one of these would stop the shard for good
    "Nats-Expected-Last-Sequence": "0",
    "Nats-Expected-Last-Subject-Sequence": "0",
    "Nats-Expected-Last-Subject-Sequence-Subject": "q.>",
    "Nats-Expected-Stream": "Q0",
    "Nats-Schedule": "@every 1s",
    "Nats-TTL": "1s",
    "Nats-Batch-Id": "b",
    "Nats-Rollup": "all",
    "Nats-Incr": "1",
    "Nats-Trace-Dest": "spy",
    "Nats-Required-Api-Level": "1",
    "Nats-Marker-Reason": "Purge",
    "Nats-Stream-Source": "Q0 1",
    "nats-ttl": "1s",
}


class Edges:
    """One edge for each server of a cluster, in this process."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        """Name them."""
        self.cluster = cluster
        self.key_file = folder / "edge.json"
        self.stops: list[Stop] = []
        self.tasks: list[asyncio.Task[None]] = []
        write_secret(self.key_file, msgspec.json.encode(cluster.identity.edge).decode())

    async def start(self, **changes: int) -> None:
        """Start all, with these settings changed."""
        for number, server in enumerate(self.cluster.servers):
            ready = self.key_file.with_name(f"ready-{number}")
            settings = EdgeSettings(
                name=f"edge-{number}",
                listen_port=server.ports.edge,
                server_port=server.ports.client,
                key_file=str(self.key_file),
                ready_file=str(ready),
                **changes,
            )
            self.stops.append(Stop())
            self.tasks.append(asyncio.create_task(app.run(settings, self.stops[-1])))
            await until(ready.exists)

    async def stop(self, number: int) -> None:
        """End one."""
        self.stops[number].set("test")
        await self.tasks[number]


@pytest.fixture
async def edges(provisioned_cluster: Cluster, tmp_path: Path) -> AsyncIterator[Edges]:
    """Edges of the run's servers."""
    made = Edges(provisioned_cluster, tmp_path)
    await made.start()
    yield made
    for number in range(len(made.stops)):
        await made.stop(number)


@pytest.fixture
def tenant() -> str:
    """A tenant of one test."""
    return unique("t")


@pytest.fixture
def credential(provisioned_cluster: Cluster, tenant: str) -> Credential:
    """A client's, for the edge."""
    signer = provisioned_cluster.identity.client_signer
    return signer.mint("client", roles.publisher(tenant), by_edge=True)


@pytest.fixture
async def client(edges: Edges, connect: Connect, credential: Credential) -> Bus:
    """A client that came through an edge."""
    return await connect(name="client", credential=credential, servers=edges.cluster.edge_urls)


@pytest.mark.parametrize("header", HEADERS)
async def test_a_header_of_the_servers_is_refused(
    header: str, client: Bus, tenant: str, admin_bus: Bus
) -> None:
    """On each way into a stream, at once and for certain; the stream is as it was, and takes the next message."""
    ways = [
        subjects.task(tenant, "default", "batch"),
        subjects.session_task(tenant, uuid4().hex, uuid4().hex),
        f"object.1.{tenant}.{uuid4().hex}.0",
    ]
    before = {
        way: await client.publish_acked(way, b"{}", message_id=uuid4().hex) for way in ways[:1]
    }
    for way in ways:
        with pytest.raises(Forbidden):
            await client.publish_acked(
                way, b"{}", message_id=uuid4().hex, headers={header: HEADERS[header]}
            )
    for shard in range(3):
        lane = subjects.queue(shard, tenant, "default", "batch")
        last = await admin_bus.read_last(f"Q{shard}", lane)
        assert last is None or last.seq in {ack.seq for ack in before.values()}
    for way in ways:
        assert not (await client.publish_acked(way, b"{}", message_id=uuid4().hex)).duplicate
    assert client.connected


async def test_no_answer_can_be_sent_as_anothers_message(
    edges: Edges, client: Bus, tenant: str, connect: Connect
) -> None:
    """The servers send an answer wherever its asker says: a chunk would be another tenant's result, or a shard's end."""
    victim = unique("v")
    signer = edges.cluster.identity.client_signer
    other = await connect(
        name="victim",
        credential=signer.mint("victim", roles.publisher(victim), by_edge=True),
        servers=edges.cluster.edge_urls,
    )
    heard: list[str] = []
    for subject in (f"done.{victim}.>", f"out.{victim}.>", subjects.SHARDS_DOWN):
        await other.subscribe(subject, lambda message: heard.append(message.subject))
    stored = uuid4().hex
    await client.publish_acked(f"object.0.{tenant}.{stored}.0", b"forged", message_id=uuid4().hex)
    chunk = subjects.read_chunk(tenant, stored, 0)

    async def is_there() -> bool:
        return (await client.request(chunk, timeout_s=5)).data == b"forged"

    await until(is_there)
    for reply in (f"done.{victim}.a.b", f"out.{victim}.a.b", subjects.SHARDS_DOWN):
        await client.publish(chunk, b"", reply=reply)
    await is_there()
    assert await other.probe(timeout_s=5)

    assert heard == []
    assert client.connected


async def test_nothing_is_stored_under_a_wildcard(client: Bus, tenant: str, admin_bus: Bus) -> None:
    """Whoever looked after a session `*` would read, and remove, what is in the tenant's other inboxes."""
    for way in (
        subjects.session_task(tenant, "*", "*"),
        subjects.session_task(tenant, "*", uuid4().hex),
    ):
        with pytest.raises(Forbidden):
            await client.publish_acked(way, b"{}", message_id=uuid4().hex)
    for shard in range(3):
        assert await admin_bus.read_last(f"I{shard}", f"in.{shard}.{tenant}.>") is None
    assert client.connected


async def test_there_is_no_way_around_the_edge(
    edges: Edges, connect: Connect, credential: Credential, tmp_path: Path
) -> None:
    """The servers take these users from an edge only, and from one whose key they know."""
    with pytest.raises(Forbidden):
        await connect(name="client", credential=credential, servers=edges.cluster.urls)
    write_secret(edges.key_file, msgspec.json.encode(make_key("account")).decode())
    await edges.stop(0)
    settings = EdgeSettings(
        name="stranger",
        listen_port=edges.cluster.servers[0].ports.edge,
        server_port=edges.cluster.servers[0].ports.client,
        key_file=str(edges.key_file),
    )
    stop = Stop()
    running = asyncio.create_task(app.run(settings, stop))
    with pytest.raises((Forbidden, Unavailable)):
        await connect(name="client", credential=credential, servers=edges.cluster.edge_urls[:1])
    stop.set("test")
    await running


async def test_a_client_goes_to_another_edge_when_its_own_ends(
    edges: Edges, client: Bus, tenant: str
) -> None:
    """One reconnect; nothing that it heard before is forgotten."""
    heard: asyncio.Queue[bytes] = asyncio.Queue()
    await client.subscribe(f"done.{tenant}.>", lambda message: heard.put_nowait(message.data))
    first = client.server
    await edges.stop(edges.cluster.edge_urls.index(f"nats://{first}"))

    await until(lambda: client.connected and client.server != first)

    assert f"nats://{client.server}" in edges.cluster.edge_urls
    way = subjects.task(tenant, "default", "batch")
    assert (await client.publish_acked(way, b"{}", message_id=uuid4().hex)).seq


async def test_any_nats_client_is_told_what_is_refused(
    edges: Edges, credential: Credential, tenant: str, tmp_path: Path
) -> None:
    """As a permission that it lacks, with the header's name; it learns no address but the edges'."""
    path = tmp_path / "client.creds"
    write_credential(path, credential)
    errors: list[Exception] = []

    async def on_error(error: Exception) -> None:
        errors.append(error)

    client: Any = await nats.connect(
        list(edges.cluster.edge_urls), user_credentials=str(path), error_cb=on_error,
        inbox_prefix=f"_INBOX_c-{tenant}".encode(),
    )  # fmt: skip
    way = subjects.task(tenant, "default", "batch")
    await client.publish(way, b"{}", headers={"Nats-TTL": "1s"})
    answer = await client.request(way, b"{}", headers={"Nats-Msg-Id": uuid4().hex}, timeout=5)
    await until(lambda: errors)

    assert b'"stream"' in answer.data
    assert "refused.nats-ttl.task." in str(errors[0])
    assert {f"nats://{url.netloc}" for url in client.servers} == set(edges.cluster.edge_urls)
    await client.close()


class Crowd:
    """Clients of two tenants before edges that give each tenant little."""

    def __init__(self, edges: Edges) -> None:
        """Name the tenants."""
        self._edges = edges
        self.tenants = unique("t"), unique("t")

    async def client(self, tenant: int = 0, *, deadline_s: float = 5.0) -> Bus:
        """Connect through the first edge."""
        name = self.tenants[tenant]
        minted = self._edges.cluster.identity.client_signer.mint(
            "client", roles.publisher(name), by_edge=True
        )
        options = BusOptions(
            servers=self._edges.cluster.edge_urls[:1],
            name="c",
            credential=minted,
            ping_interval_s=60,  # none in the middle of a message that is sent by hand
        )
        return await Bus.connect(options, deadline_s=deadline_s)


@pytest.fixture
async def crowd(provisioned_cluster: Cluster, tmp_path: Path) -> AsyncIterator[Crowd]:
    """Edges at which a tenant has two connections and 100,000 bytes of half-sent messages."""
    edges = Edges(provisioned_cluster, tmp_path)
    await edges.start(tenant_connections_max=2, tenant_half_sent_bytes_max=100_000)
    yield Crowd(edges)
    for number in range(len(edges.stops)):
        await edges.stop(number)


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
        async with asyncio.timeout(5):
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
    """A credential is renewed on the same connection, many times; another tenant's is not taken on it."""
    client = await crowd.client()
    signer = crowd._edges.cluster.identity.client_signer
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


async def test_large_messages_pass_whole(client: Bus, tenant: str) -> None:
    """In both directions, as large as they come."""
    chunk = bytes(limits.OBJECT_CHUNK_BYTES_MAX)
    path = f"{tenant}.{uuid4().hex}.0"
    await client.publish_acked(f"object.1.{path}", chunk, message_id=uuid4().hex)

    async def is_there() -> bool:
        answer = await client.request(f"chunk.1.{path}", timeout_s=5)
        return answer.data == chunk

    await until(is_there)
