"""Does a store do what it says? Asked before it is used: one that lies loses workspaces later, and says nothing."""

from __future__ import annotations

import asyncio
import secrets
import time
from contextlib import suppress

from checkpointer.core.keys import folder
from checkpointer.ports.blobs import BlobStore
from shared import logs
from shared.errors import AlreadyDone, InvalidMessage, NotFound, Rejected, ServiceError

log = logs.get(__name__)

TENANT = "probe"
LISTED_S = 3.0
"""So long a listing may lag behind, and a replica behind a removal; nothing is concluded from what is not shown."""
PAUSE_S = 0.1
_FIRST, _SECOND = b"first " * 1000, b"second" * 1000
_RANGE = (1234, 2345)


class LyingStore(Rejected):
    """A store does not do what is asked of it: nothing may be kept there."""

    code = "lying_store"


async def probe_store(store: BlobStore) -> None:
    """Put, read, list and remove a small pack.

    Raises:
        LyingStore: says what the store did wrong.
        ServiceError: it cannot be used now.
    """
    key = store.new_key(TENANT, f"probe-{secrets.token_hex(8)}")
    try:
        await _probe(store, key)
    finally:
        with suppress(ServiceError):
            await store.delete(key)
    log.info("store.probed", store=store.id)


async def _probe(store: BlobStore, key: str) -> None:
    if await _found(store, key) is not None:
        raise LyingStore("it returned something for a name that was never used")
    try:
        await store.put(key, _FIRST)
    except AlreadyDone as exc:
        raise LyingStore("it refused a new name as used") from exc
    _same(await _found(store, key), _FIRST, "what was just stored")
    await _probe_second(store, key)
    await _probe_ranges(store, key)
    size = await store.size(key)
    if size != len(_FIRST):
        raise LyingStore(f"it says that {len(_FIRST)} bytes are {size}")
    await _probe_listing(store, key, is_there=True)
    await store.delete(key)
    await _probe_removed(store, key)
    await _probe_listing(store, key, is_there=False)


async def _probe_removed(store: BlobStore, key: str) -> None:
    """Wait until what was removed is returned no more: a replica may not have heard of it yet."""
    end = time.monotonic() + LISTED_S
    while await _found(store, key) is not None:
        if time.monotonic() > end:
            raise LyingStore(f"it still returns what was removed, {LISTED_S:.0f} s later")
        await asyncio.sleep(PAUSE_S)


async def _probe_second(store: BlobStore, key: str) -> None:
    try:
        await store.put(key, _SECOND)
    except AlreadyDone:
        pass
    else:
        raise LyingStore(
            "it stored a second time under a name that was used: create-only is ignored"
        )
    _same(await _found(store, key), _FIRST, "a pack after a second one of its name was refused")


async def _probe_ranges(store: BlobStore, key: str) -> None:
    size = len(_FIRST)
    for start, length in ((0, 10), _RANGE, (size - 10, 10), (0, size), (size - 5, 50)):
        what = f"bytes {start} to {min(size, start + length)} of {size}"
        try:
            found = await store.get(key, start, length)
        except (InvalidMessage, NotFound) as exc:
            raise LyingStore(f"it did not return {what}: {exc}") from exc
        _same(found, _FIRST[start : start + length], what)


async def _probe_listing(store: BlobStore, key: str, *, is_there: bool) -> None:
    parts = key.split("/")
    prefix = folder(parts[0], parts[1])
    end = time.monotonic() + LISTED_S
    while True:
        found = {pack.key: pack.size_bytes async for pack in store.list(prefix)}
        if (key in found) == is_there:
            break
        if time.monotonic() > end:
            said = "does not show what was stored" if is_there else "still shows what was removed"
            raise LyingStore(f"its listing {said}, {LISTED_S:.0f} s later")
        await asyncio.sleep(PAUSE_S)
    if is_there and found[key] != len(_FIRST):
        raise LyingStore(f"its listing says that {len(_FIRST)} bytes are {found[key]}")


async def _found(store: BlobStore, key: str) -> bytes | None:
    try:
        return await store.get(key)
    except NotFound:
        return None


def _same(found: bytes | None, wanted: bytes, what: str) -> None:
    if found is None:
        raise LyingStore(f"it did not return {what}")
    if found != wanted:
        raise LyingStore(f"it returned {len(found)} other bytes instead of {what}")
