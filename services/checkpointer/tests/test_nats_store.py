"""Packs in the streams of three real servers: on clusters of before, when they are full, and when leaders are lost."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from checkpointer.adapters.stores.over_nats import PACK_BYTES_MAX, PENDING_BYTES, NatsStore
from checkpointer.core.keys import parse_key
from checkpointer.loops.patient_store import PatientStore
from shared import packs
from shared.bus import Bus
from shared.bus.provision import provision
from shared.cluster import Cluster
from shared.errors import InvalidMessage, LimitExceeded, NotFound, Unavailable
from shared.identity import roles
from shared.testing.plugin import POOLS, Connect, provision_cluster, start_cluster
from shared.testing.wait import until
from shared.topology import Topology, topology

MIB = 1 << 20


async def opened(connect: Connect, cluster: Cluster) -> NatsStore:
    """Return a cluster's store on a connection of its own."""
    bus = await connect(
        roles.checkpointer("n1"), name="ckpt-n1", cluster=cluster, pending_bytes_max=PENDING_BYTES
    )
    return await NatsStore.open(bus)


def small(*, with_packs: bool) -> Topology:
    """Return what a cluster with 18 MiB for packs holds, or one from before there were any."""
    wanted = topology(POOLS, created_ms=int(time.time() * 1000), pack_bytes=18 * MIB)
    streams = tuple(
        stream for stream in wanted.streams if with_packs or not stream.name.startswith("W")
    )
    return replace(wanted, streams=streams)


@pytest.fixture
def older_cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Servers that were provisioned before there were packs."""
    cluster = start_cluster(tmp_path / "nats")
    try:
        asyncio.run(provision_cluster(cluster, small(with_packs=False)))
        yield cluster
    finally:
        cluster.kill()


async def has_leader(bus: Bus, stream: str) -> bool:
    """Return whether a stream's leader answers."""
    try:
        await bus.read_last(stream, "pack.>", timeout_s=0.3)
    except Unavailable:
        return False
    return True


async def filled(store: NatsStore) -> list[str]:
    """Upload until the store is full; return the keys."""
    patient, keys, content = PatientStore(store), [], random.Random(1).randbytes(2 * MIB)
    with suppress(LimitExceeded):
        while True:
            keys.append(await patient.upload("acme", "session01", content))
    assert "the store of packs is full" in patient.state.reason
    return keys


async def test_a_full_store_refuses_and_takes_again_when_there_is_room(
    older_cluster: Cluster, connect: Connect
) -> None:
    """On a cluster that gets its streams now: definite, named, and nothing that was stored is pushed out."""
    with pytest.raises(NotFound):
        await opened(connect, older_cluster)
    bus = await connect(cluster=older_cluster)
    assert await provision(bus, small(with_packs=True)) == []
    assert await provision(bus, small(with_packs=True)) == []

    store = await opened(connect, older_cluster)
    keys = await filled(store)
    assert len({key[-1] for key in keys}) == 3, "all shards are used"
    assert len(keys) >= 3 * 2
    for key in keys:
        assert await store.size(key) == 2 * MIB
    await store.delete(keys[0])
    again = store.new_key("acme", "session01")[:-1] + keys[0][-1]
    await store.put(again, bytes(MIB))
    assert await store.get(again) == bytes(MIB)


async def test_large_packs_are_stored_one_after_another(
    provisioned_cluster: Cluster, connect: Connect
) -> None:
    """An index of a large workspace, say, while small ones are stored too; above the bound it is refused."""
    store = await opened(connect, provisioned_cluster)
    contents = [random.Random(size).randbytes(size * MIB) for size in (20, 1, 20, 1, 1)]
    keys = [store.new_key("acme", "session01") for _ in contents]
    await asyncio.gather(*(store.put(key, data) for key, data in zip(keys, contents, strict=True)))
    for key, data in zip(keys, contents, strict=True):
        assert await store.get(key) == data
        await store.delete(key)
    with pytest.raises(LimitExceeded, match="a pack has at most 134217728"):
        await store.put(keys[0], bytes(PACK_BYTES_MAX + 1))


async def test_a_pack_of_which_a_part_is_gone_is_not_got(
    provisioned_cluster: Cluster, connect: Connect
) -> None:
    """Nothing short and nothing wrong is returned, and what is missing is named."""
    store = await opened(connect, provisioned_cluster)
    key = store.new_key("acme", "session01")
    await store.put(key, bytes(MIB))
    admin = await connect()
    shard, name = int(key[-1]), key.rpartition("/")[2]
    lost = packs.subject(shard, "acme", "session01", name, "2")
    await admin.js_api(f"STREAM.PURGE.{packs.stream(shard)}", {"filter": lost})
    await admin.publish_acked(lost, bytes(7), headers={"Pack-Bytes": str(MIB)}, message_id="short")

    with pytest.raises(InvalidMessage, match="part 2 has 7 bytes instead of 262144"):
        await store.get(key)
    await admin.js_api(f"STREAM.PURGE.{packs.stream(shard)}", {"filter": lost})
    with pytest.raises((NotFound, InvalidMessage), match="part 2"):
        await store.get(key)
    assert await store.get(key, 0, 2 * 262144) == bytes(2 * 262144)


@pytest.mark.parametrize("fault", ["killed", pytest.param("hung", marks=pytest.mark.slow)])
async def test_uploads_go_on_at_once_when_a_leader_is_lost_in_mid_put(
    private_cluster: Cluster, connect: Connect, fault: str
) -> None:
    """Over the other shards, under new names: none waits for an election. What its shard holds is read from the others.

    And when all servers are gone, each call ends, and the store says that it is down, and why.
    """
    store = await opened(connect, private_cluster)
    patient = PatientStore(store)
    content = random.Random(2).randbytes(2 * MIB)
    before = [await patient.upload("acme", "session01", content)]
    while parse_key(before[-1]).place != "1":  # the place is drawn
        before.append(await patient.upload("acme", "session01", content))
    lost = private_cluster.servers[1]
    under_way = [
        asyncio.create_task(patient.upload("acme", "session01", content)) for _ in range(6)
    ]
    await asyncio.sleep(0)  # their batches are on the way now
    lost.kill() if fault == "killed" else lost.pause()
    watcher = await connect(cluster=private_cluster, servers=private_cluster.urls[::2])
    elected = asyncio.create_task(until(partial(has_leader, watcher, packs.stream(1)), within_s=20))
    reads = asyncio.gather(*(patient.get(key) for key in before))
    await asyncio.wait({elected, reads}, return_when=asyncio.FIRST_COMPLETED)
    assert reads.done(), "they were read only when the shard had a leader again"
    assert await reads == [content] * len(before)
    during = await asyncio.gather(*under_way)
    # On a busy machine they may take as long as an election does: then those in other shards did not wait for it.
    waited = [key for key in during if parse_key(key).place == "1"]
    assert not (elected.done() and waited), "they waited until the shard had a leader again"
    for key in during:
        assert await patient.get(key) == content
    elected.cancel()

    for server in private_cluster.servers:
        server.kill()
    patient.stall_s = 1.0
    with pytest.raises(Unavailable, match="for 1 s"):
        await patient.upload("acme", "session01", content)
    with pytest.raises(Unavailable):
        [pack async for pack in patient.list()]
    assert not patient.state.up
    assert patient.state.reason
