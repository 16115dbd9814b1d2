"""Storing an object, and removing one."""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from collections import deque
from collections.abc import AsyncIterator, Callable
from functools import partial

from shared import limits, subjects
from shared.bus import Bus
from shared.errors import LimitExceeded
from shared.files import ObjectRef
from shared.ids import SHARDS
from shared.objects.chunks import BusChunks, Chunks
from shared.objects.window import STALL_S, Window, end

CHUNK_BYTES = limits.OBJECT_CHUNK_BYTES_MAX


class ObjectWriter:
    """Stores one object. After an error it is of no use; `abandon` ends what is on the way."""

    def __init__(self, chunks: Chunks, *, stall_s: float = STALL_S) -> None:
        """Store nothing yet.

        Args:
            chunks: where to.
            stall_s: longest wait for one chunk, seconds.
        """
        self._chunks = chunks
        self._stall_s = stall_s
        self.id = str(uuid.uuid4())
        self.stored_bytes = 0
        """What the store has acknowledged."""
        self._size_bytes = 0
        self._digest = hashlib.sha256()
        self._rest = bytearray()
        self._number = 0
        self._window = Window()
        self._sent: deque[asyncio.Task[bytes]] = deque()

    async def write(self, data: bytes) -> None:
        """Add content; waits while as much as may be is on the way.

        Raises:
            LimitExceeded: the object is too large, or the object store is full; names the limit.
            Forbidden: the credential does not allow it.
            Unavailable: a chunk could not be stored for `stall_s` seconds.
            OutcomeUnknown: likewise, and it may have been stored.
        """
        self._size_bytes += len(data)
        if self._size_bytes > limits.OBJECT_BYTES_MAX:
            raise LimitExceeded(f"object: more than {limits.OBJECT_BYTES_MAX} bytes")
        self._digest.update(data)
        self._rest += data
        while len(self._rest) >= CHUNK_BYTES:
            chunk = bytes(memoryview(self._rest)[:CHUNK_BYTES])
            del self._rest[:CHUNK_BYTES]
            await self._send(chunk)

    async def close(self) -> ObjectRef:
        """Store the rest and return the object's reference: everything is stored.

        Raises:
            ServiceError: as `write`.
        """
        if self._rest:
            await self._send(bytes(self._rest))
            self._rest.clear()
        while self._sent:
            await self._sent[0]
            del self._sent[0]
        return ObjectRef(
            id=self.id,
            size_bytes=self._size_bytes,
            sha256=self._digest.hexdigest(),
            chunk_bytes=CHUNK_BYTES,
        )

    @property
    def has_begun(self) -> bool:
        """Whether some of it may be stored."""
        return self._number > 0

    async def abandon(self, *, settle_s: float = 0.0) -> None:
        """End what is on the way; what is stored goes by its age, if nobody drops it.

        Args:
            settle_s: longest wait for what is on the way, seconds. What is only sent, and not answered, may be stored
                behind a removal that is asked for after it.
        """
        if settle_s and self._sent:
            await asyncio.wait(self._sent, timeout=settle_s)
        await end(self._sent)

    async def _send(self, chunk: bytes) -> None:
        await self._window.wait_room()
        while self._sent and self._sent[0].done():
            self._sent.popleft().result()
        self._sent.append(self._window.start(partial(self._store, self._number, chunk)))
        self._number += 1

    async def _store(self, number: int, chunk: bytes) -> bytes:
        await self._chunks.put(self.id, number, chunk, within_s=self._stall_s)
        self.stored_bytes += len(chunk)
        return b""


async def write_object(
    bus: Bus,
    tenant: str,
    pieces: AsyncIterator[bytes],
    *,
    on_stored: Callable[[int], None] | None = None,
    stall_s: float = STALL_S,
) -> ObjectRef:
    """Store what an iterator yields as one object.

    Args:
        bus: a connection whose user may write objects of the tenant.
        tenant: whose object it will be.
        pieces: the content, in pieces of any size.
        on_stored: called now and then with the bytes stored so far.
        stall_s: longest wait for one chunk, seconds.

    Raises:
        ServiceError: as `ObjectWriter.write`.
    """
    writer = ObjectWriter(BusChunks(bus, tenant), stall_s=stall_s)
    try:
        return await write_chunks(writer, pieces, on_stored=on_stored)
    finally:
        await writer.abandon()


async def write_chunks(
    writer: ObjectWriter,
    pieces: AsyncIterator[bytes],
    *,
    on_stored: Callable[[int], None] | None = None,
) -> ObjectRef:
    """Store what an iterator yields as one object, wherever its chunks lie; see `write_object`.

    After an error the writer is to be abandoned; what was stored is still there, under its id.
    """
    tell = on_stored or (lambda _bytes: None)
    async for piece in pieces:
        await writer.write(piece)
        tell(writer.stored_bytes)
    reference = await writer.close()
    tell(writer.stored_bytes)
    return reference


async def drop_object(bus: Bus, tenant: str, object_id: str) -> None:
    """Remove an object's chunks from their streams. For services that may purge.

    Raises:
        ServiceError: not surely removed; what is left goes by its age.
    """
    for shard in range(SHARDS):
        chunks = subjects.object_chunk(tenant, object_id, shard).removesuffix(f"{shard}") + "*"
        await bus.js_api(
            f"STREAM.PURGE.{subjects.object_stream(shard)}", {"filter": chunks}, timeout_s=10.0
        )
