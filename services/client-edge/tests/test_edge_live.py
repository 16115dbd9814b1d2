"""Edges before real servers: what clients can do through them, and that there is no other way in."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import nats
import pytest

from client_edge import app
from client_edge.settings import EdgeSettings
from shared import limits, subjects
from shared.bus import Bus
from shared.cluster import Cluster
from shared.errors import Forbidden, Unavailable
from shared.identity import Credential, make_key, roles, write_credential, write_secret
from shared.service import Stop
from shared.testing.names import unique
from shared.testing.plugin import Connect
from shared.testing.wait import until

Edges = Any
"""One edge for each server of a cluster (conftest.py)."""
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


async def test_large_messages_pass_whole(client: Bus, tenant: str) -> None:
    """In both directions, as large as they come."""
    chunk = bytes(limits.OBJECT_CHUNK_BYTES_MAX)
    path = f"{tenant}.{uuid4().hex}.0"
    await client.publish_acked(f"object.1.{path}", chunk, message_id=uuid4().hex)

    async def is_there() -> bool:
        answer = await client.request(f"chunk.1.{path}", timeout_s=5)
        return answer.data == chunk

    await until(is_there)
