"""Every store keeps the same contract: in a folder, and in the streams of real servers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from checkpointer.adapters.stores.local import LocalStore
from checkpointer.adapters.stores.over_nats import PENDING_BYTES, NatsStore
from checkpointer.adapters.stores.s3 import S3Store
from checkpointer.core.parts import PART_BYTES
from checkpointer.loops.probe_store import probe_store
from checkpointer.ports.blobs import BlobStore, StoredPack
from checkpointer.testing.s3_server import make_bucket
from shared.bus import Bus
from shared.errors import AlreadyDone, InvalidMessage, NotFound
from shared.testing.look import until
from shared.testing.names import unique
from shared.testing.plugin import admin_options

TENANT = "acme"


@pytest.fixture(params=["local", "nats", "s3"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[BlobStore]:
    """A store of each kind."""
    opened: BlobStore
    if request.param == "local":
        opened = await LocalStore.open(tmp_path / "packs", "this")
    elif request.param == "s3":
        address = make_bucket(request.getfixturevalue("s3_url"), unique("bucket").lower())
        opened = await S3Store.open(replace(address, prefix="some/prefix"), "this")
    else:
        options = admin_options(request.getfixturevalue("provisioned_cluster"), unique("store"))
        bus = await Bus.connect(replace(options, pending_bytes_max=PENDING_BYTES))
        opened = await NatsStore.open(bus)
    yield opened
    await opened.close()


async def listed(store: BlobStore, prefix: str) -> list[StoredPack]:
    """Return a listing, ordered."""
    return sorted([pack async for pack in store.list(prefix)], key=lambda pack: pack.key)


@pytest.mark.parametrize(
    "size", [0, 1, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 4 * 1024 * 1024 + 17]
)
async def test_what_was_put_is_what_is_got(store: BlobStore, size: int) -> None:
    """Whole, and any range of it, at every edge of a part."""
    data = random.Random(size).randbytes(size)
    key = store.new_key(TENANT, unique("session"))
    await store.put(key, data)

    assert await store.size(key) == size
    assert await store.get(key) == data
    edges = sorted(
        {0, 1, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, size - 1, size} & {*range(size + 1)}
    )
    for start in edges:
        assert await store.get(key, start) == data[start:]
        for length in (0, 1, 7, PART_BYTES, size + 5):
            assert await store.get(key, start, length) == data[start : start + length], (
                start,
                length,
            )
    with pytest.raises(InvalidMessage, match="asked from"):
        await store.get(key, size + 1)


async def test_a_pack_never_changes(store: BlobStore) -> None:
    """Neither by another content under its name nor by the same again."""
    key = store.new_key(TENANT, unique("session"))
    await store.put(key, b"precious")
    for content in (b"poisoned", b"precious", b"p" * (PART_BYTES + 1)):
        with pytest.raises(AlreadyDone):
            await store.put(key, content)

    assert await store.get(key) == b"precious"


async def test_what_is_not_there_is_said(store: BlobStore) -> None:
    """By its name; and to remove it is no error."""
    key = store.new_key(TENANT, unique("session"))
    with pytest.raises(NotFound, match=key.rpartition("/")[2]):
        await store.get(key)
    with pytest.raises(NotFound):
        await store.get(key, 10, 10)
    with pytest.raises(NotFound):
        await store.size(key)
    await store.delete(key)


async def test_a_listing_shows_what_is_there(store: BlobStore) -> None:
    """Of a session, of a tenant, of all; with sizes and times, and without what was removed."""
    tenant, one, two = unique("t"), unique("session"), unique("session")
    sizes = {}
    for session, size in ((one, 5), (one, PART_BYTES + 1), (two, 7)):
        key = store.new_key(tenant, session)
        await store.put(key, bytes(size))
        sizes[key] = size
    of_one = {key for key in sizes if f"/{one}/" in key}

    async def all_listed() -> bool:
        """A replica may be a moment behind."""
        return set(sizes) <= {pack.key for pack in await listed(store, "")}

    await until(all_listed)
    assert {pack.key: pack.size_bytes for pack in await listed(store, f"{tenant}/")} == sizes
    assert {pack.key for pack in await listed(store, f"{tenant}/{one}/")} == of_one
    times = [pack.stored_ms for pack in await listed(store, f"{tenant}/")]
    assert max(times) - min(times) < 60_000
    assert await listed(store, f"{unique('t')}/") == []

    for key in of_one:
        await store.delete(key)

    async def removed() -> bool:
        return {pack.key for pack in await listed(store, f"{tenant}/")} == set(sizes) - of_one

    await until(removed)
    with pytest.raises(NotFound):
        await store.get(of_one.pop())


async def test_of_writers_of_one_name_one_wins(store: BlobStore) -> None:
    """The others are told, and what is stored is the winner's, whole."""
    key = store.new_key(TENANT, unique("session"))
    contents = [bytes([number]) * (2 * PART_BYTES) for number in range(8)]
    results = await asyncio.gather(
        *(store.put(key, content) for content in contents), return_exceptions=True
    )

    assert sorted(type(result).__name__ for result in results) == ["AlreadyDone"] * 7 + ["NoneType"]
    assert await store.get(key) == contents[results.index(None)]


@pytest.mark.parametrize(
    "key",
    [
        "acme/session1",
        "acme/../etc/passwd",
        "../acme/session01/x",
        "acme/session01/name",
        "a b/c/d",
    ],
)
async def test_what_is_no_key_reaches_no_store(store: BlobStore, key: str) -> None:
    """Nothing is read, written or removed elsewhere."""
    with pytest.raises(InvalidMessage):
        await store.put(key, b"x")
    with pytest.raises(InvalidMessage):
        await store.get(key)
    with pytest.raises(InvalidMessage):
        await store.delete(key)
    with pytest.raises(InvalidMessage):
        await listed(store, "acme")


async def test_new_keys_are_new(store: BlobStore) -> None:
    """In the order of their making, to the millisecond."""
    keys = [store.new_key(TENANT, "session01") for _ in range(1000)]

    assert len(set(keys)) == len(keys)
    assert [key.rpartition("/")[2][:10] for key in keys] == sorted(
        key.rpartition("/")[2][:10] for key in keys
    )


async def test_a_store_that_does_what_it_says_is_taken(store: BlobStore) -> None:
    """And nothing of the probe stays."""
    await probe_store(store)

    assert await listed(store, "probe/") == []
