"""Objects on real servers: what was stored is what is read, and every fault is noticed and named."""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from shared import limits, subjects
from shared.bus import Bus
from shared.cluster import Cluster
from shared.errors import Forbidden, InvalidMessage, LimitExceeded, NotFound
from shared.files import ObjectRef
from shared.identity import roles
from shared.objects import BusChunks, ObjectWriter, drop_object, read, read_object, write_object
from shared.testing.names import unique
from shared.testing.plugin import POOLS, Connect, provision_cluster, start_cluster
from shared.testing.wait import until
from shared.topology import topology

CHUNK = limits.OBJECT_CHUNK_BYTES_MAX
MIB = 1 << 20


async def pieces(content: bytes, size: int = 100_000) -> AsyncIterator[bytes]:
    """Yield content as its source happens to cut it."""
    for at in range(0, len(content), size):
        yield content[at : at + size]


async def stored(bus: Bus, content: bytes, tenant: str = "acme") -> ObjectRef:
    """Store content."""
    return await write_object(bus, tenant, pieces(content))


async def found(bus: Bus, reference: ObjectRef, tenant: str = "acme") -> bytes:
    """Read an object whole."""
    async with aclosing(read_object(bus, tenant, reference)) as chunks:
        return b"".join([chunk async for chunk in chunks])


@pytest.fixture
async def client(connect_client: Connect) -> Bus:
    """A client of the tenant `acme`."""
    return await connect_client("acme")


@pytest.fixture
async def worker(connect: Connect) -> Bus:
    """A worker of the pool `default`."""
    return await connect(roles.worker("default", "w1"), name="w1")


async def is_gone(bus: Bus, reference: ObjectRef, number: int) -> bool:
    """Return whether a server says that it has no such chunk; each learns of a removal in its own time."""
    answer = await bus.request(subjects.read_chunk("acme", reference.id, number), timeout_s=2)
    return answer.headers.get("Status") == "404"


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, 11 * CHUNK + 17])
async def test_what_was_stored_is_what_is_read(client: Bus, worker: Bus, size: int) -> None:
    """From a client to a worker and from a worker to a client, at every edge of a chunk."""
    content = random.Random(size).randbytes(size)
    for source, reader in ((client, worker), (worker, client)):
        reference = await stored(source, content)

        assert reference.size_bytes == size
        assert reference.sha256 == hashlib.sha256(content).hexdigest()
        assert await found(reader, reference) == content


async def test_a_stored_chunk_never_changes(client: Bus, worker: Bus) -> None:
    """Neither its writer nor anybody else stores other bytes in its place."""
    reference = await stored(client, b"precious")
    place = subjects.object_chunk("acme", reference.id, 0)
    for bus in (client, worker):
        with pytest.raises(LimitExceeded, match="per subject"):
            await bus.publish_acked(place, b"poisoned", message_id=unique("other"))

    assert await found(worker, reference) == b"precious"


async def test_a_chunk_that_was_stored_by_an_earlier_try_counts_as_stored(client: Bus) -> None:
    """Also when its message id is forgotten by now: the subject remembers."""
    writer = ObjectWriter(BusChunks(client, "acme"))
    place = subjects.object_chunk("acme", writer.id, 0)
    await client.publish_acked(place, b"content", message_id=unique("other"))
    await writer.write(b"content")

    assert await found(client, await writer.close()) == b"content"


async def test_a_chunk_that_is_missing_is_named(
    client: Bus, admin_bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No end of silence, and no file with a hole: the object, the chunk and how many there are."""
    monkeypatch.setattr(read, "MISSING_S", 0.2)
    reference = await stored(client, bytes(3 * CHUNK))
    hole = {"filter": subjects.object_chunk("acme", reference.id, 1)}
    await admin_bus.js_api("STREAM.PURGE.O1", hole)

    said: list[str] = []

    async def is_missed() -> bool:  # a replica that is a moment behind still has it
        try:
            await found(client, reference)
        except NotFound as exc:
            said.append(str(exc))
        return bool(said)

    await until(is_missed)
    assert f"object {reference.id}: chunk 1 of 3 is not there" in said[0]


async def test_wrong_content_is_noticed(client: Bus) -> None:
    """By its size where that is wrong, else by its digest."""
    reference = await stored(client, bytes(CHUNK + 5))
    wrong = "0" * 64
    with pytest.raises(InvalidMessage, match=f"sha256 is .*, the reference says {wrong}"):
        await found(client, replace(reference, sha256=wrong))
    with pytest.raises(InvalidMessage, match=f"chunk 1 of 2 has 5 bytes, the reference says {6}"):
        await found(client, replace(reference, size_bytes=CHUNK + 6))


async def test_another_tenant_s_objects_are_out_of_reach(
    client: Bus, connect_client: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused under their tenant, and not there under one's own."""
    monkeypatch.setattr(read, "MISSING_S", 0.2)
    other = await connect_client("other")
    reference = await stored(client, b"secret")

    with pytest.raises(Forbidden):
        await found(other, reference)
    with pytest.raises(Forbidden):
        await stored(other, b"planted")
    with pytest.raises(Forbidden):
        await drop_object(other, "other", reference.id)
    with pytest.raises(NotFound):
        await found(other, reference, tenant="other")


async def test_a_dropped_object_is_gone(
    client: Bus, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it, and nothing else."""
    monkeypatch.setattr(read, "MISSING_S", 0.2)
    manager = await connect(roles.pool_manager("pm"), name="pm")
    gone, kept = await stored(client, bytes(5 * CHUNK)), await stored(client, b"kept")
    await drop_object(manager, "acme", gone.id)

    assert await found(client, kept) == b"kept"
    for number in range(gone.chunks):
        await until(partial(is_gone, client, gone, number))


@pytest.fixture
def small_store(tmp_path: Path) -> Iterator[Cluster]:
    """Servers whose object store holds 24 MiB."""
    cluster = start_cluster(tmp_path / "nats")
    try:
        wanted = topology(POOLS, created_ms=int(time.time() * 1000), object_bytes=24 * MIB)
        asyncio.run(provision_cluster(cluster, wanted))
        yield cluster
    finally:
        cluster.kill()


async def test_a_full_store_refuses_and_takes_again_when_there_is_room(
    small_store: Cluster, connect: Connect, connect_client: Connect
) -> None:
    """Definite, named, and nothing that was stored is pushed out."""
    client = await connect_client("acme", cluster=small_store)
    manager = await connect(roles.pool_manager("pm"), name="pm", cluster=small_store)
    content = random.Random(1).randbytes(12 * MIB)
    first = await stored(client, content)
    with pytest.raises(LimitExceeded, match="the object store is full"):
        await stored(client, bytes(20 * MIB))

    assert await found(client, first) == content
    await drop_object(manager, "acme", first.id)
    assert await found(client, await stored(client, b"again")) == b"again"


@pytest.mark.slow
async def test_a_transfer_goes_on_over_the_death_of_a_leader(
    private_cluster: Cluster, connect_client: Connect
) -> None:
    """Of a shard that holds a third of its chunks, in mid-upload, while another object is read."""
    client = await connect_client("acme", cluster=private_cluster)
    content = random.Random(2).randbytes(32 * MIB)
    before = await stored(client, content)
    leader = private_cluster.servers[1]
    writer = ObjectWriter(BusChunks(client, "acme"))
    async with aclosing(read_object(client, "acme", before)) as chunks:
        got = bytearray()
        for at in range(0, len(content), MIB):
            await writer.write(content[at : at + MIB])
            got += await anext(chunks)
            if at == 8 * MIB:
                leader.kill()
        async for chunk in chunks:
            got += chunk

    assert got == content
    assert await found(client, await writer.close()) == content
