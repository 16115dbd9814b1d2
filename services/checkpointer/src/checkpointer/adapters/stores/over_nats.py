"""Packs in streams of the NATS servers, three copies of each.

A pack is one atomic batch of one shard: a head that tells its size, and its bytes in parts. So it is there whole or not at
all, whatever dies in between. The shard stands in its name.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from typing import Any

from checkpointer.adapters.stores import names
from checkpointer.adapters.stores.turns import Turns
from checkpointer.core.keys import PackKey, folder, parse_key, parse_prefix
from checkpointer.core.parts import HEAD, PART_BYTES, cut, part_size, parts_of
from checkpointer.core.shards import Shards
from checkpointer.ports.blobs import StoredPack
from shared import packs
from shared.bus import Bus
from shared.bus.answers import is_status
from shared.bus.types import Message, Stored, Write
from shared.errors import (
    AlreadyDone,
    Conflict,
    InvalidMessage,
    LimitExceeded,
    NotFound,
    OutcomeUnknown,
    Unavailable,
)
from shared.ids import SHARDS
from shared.limits import PACK_STORE_BYTES_MAX
from shared.objects.window import WINDOW_CHUNKS_MAX

PACK_BYTES = 4 * 1024 * 1024
PACK_BYTES_MAX = 128 * 1024 * 1024
"""The servers take a thousand messages in a batch. Indexes of large workspaces are the largest there are."""
LARGE_BYTES = 2 * PACK_BYTES
"""What is larger is sent alone."""
PENDING_BYTES = PACK_BYTES_MAX + LARGE_BYTES
"""What a connection for packs must be ready to have unsent (`BusOptions.pending_bytes_max`)."""
PUTS_AT_ONCE = 2
SIZE = "Pack-Bytes"
"""Header of each part: the size of the whole pack."""
ALIVE_S = 0.5
"""A leader that does not answer a small question for so long gets no pack."""
PUT_S = 10.0
"""Longest wait for the word that a pack is stored, and besides"""
PUT_BYTES_PER_S = 8 * 1024 * 1024
"""as long as it takes at this rate: disks that sync, three of them."""
LOOK_EVERY_S = 1.0
"""So often its leader is asked for a sign of life meanwhile."""
READ_S = 4.0
STALL_S = 20.0
"""Longest wait for one part, all tries together."""
PAUSE_S = (0.05, 0.25)


class NatsStore:
    """The store in the streams of packs."""

    pack_bytes = PACK_BYTES

    def __init__(self, bus: Bus, store_id: str) -> None:
        """Use `NatsStore.open`."""
        self.id = store_id
        self._bus = bus
        self._shards = Shards(random.randrange(SHARDS))
        self._turns = Turns(PUTS_AT_ONCE, LARGE_BYTES)
        self._reads = asyncio.Semaphore(WINDOW_CHUNKS_MAX)

    @classmethod
    async def open(cls, bus: Bus) -> NatsStore:
        """Use the streams behind a connection, which belongs to the store from now on.

        It must be ready for `PENDING_BYTES` of unsent bytes, and its user may write, read and purge packs.

        Raises:
            NotFound: the streams are not there: the cluster was not provisioned.
            Unavailable: no answer.
        """
        return cls(bus, await cls.cluster_of(bus))

    @staticmethod
    async def cluster_of(bus: Bus) -> str:
        """Return the id of the store in a cluster's streams, by which the cluster itself is known too.

        Raises:
            ServiceError: as `open`.
        """
        stream = packs.stream(0)
        try:
            info = await bus.js_api(f"STREAM.INFO.{stream}", timeout_s=READ_S)
        except OutcomeUnknown as exc:
            raise Unavailable(f"stream {stream}: {exc}") from exc
        return f"nats-{info['created']}"

    def new_key(self, tenant: str, session: str) -> str:
        """Return a new key, in a shard that has a leader as far as we know; see `BlobStore`."""
        return names.new_key(tenant, session, str(self._shards.choose(time.monotonic())))

    async def put(self, key: str, data: bytes) -> None:
        """Store a pack by one batch; see `BlobStore`."""
        where = parse_key(key)
        shard = _shard_of(where)
        if len(data) > PACK_BYTES_MAX:
            raise LimitExceeded(
                f"put {key}: {len(data)} bytes, a pack has at most {PACK_BYTES_MAX}"
            )
        headers = {SIZE: str(len(data))}
        head = Write(_subject(where, HEAD), b"", expected_seq=0, headers=headers)
        writes = [head] + [
            Write(_subject(where, str(number)), bytes(part), headers=headers)
            for number, part in enumerate(cut(data))
        ]
        async with self._turns.take(len(data)):
            try:
                if not self._shards.is_sure(shard, time.monotonic()):
                    await self._probe(shard)
                await self._store(shard, writes)
            except Conflict as exc:
                raise AlreadyDone(f"put {key}: there is a pack of that name") from exc
            except LimitExceeded as exc:
                if "per subject" in str(exc):
                    raise AlreadyDone(f"put {key}: there is a pack of that name") from exc
                if not self._shards.full(shard, time.monotonic()):
                    raise Unavailable(f"put {key}: its shard is full: {exc}") from exc
                raise LimitExceeded(
                    f"put {key}: the store of packs is full ({PACK_STORE_BYTES_MAX} bytes for all tenants): {exc}"
                ) from exc
            except (Unavailable, OutcomeUnknown):
                if self._bus.connected:  # else it is our own connection that is lost
                    self._shards.failed(shard, time.monotonic())
                raise
        self._shards.answered(shard, time.monotonic())

    async def _probe(self, shard: int) -> None:
        """Ask a shard's leader for a sign of life.

        Raises:
            Unavailable: there is none.
        """
        nothing = packs.subject(shard, "-", "-", "-", HEAD)
        await self._bus.read_last(packs.stream(shard), nothing, timeout_s=ALIVE_S)

    async def _store(self, shard: int, writes: list[Write]) -> None:
        """Send a batch and wait for its answer, for as long as its leader is alive.

        Raises:
            OutcomeUnknown: no answer within `PUT_S`, or no leader any more.
            ServiceError: others as `Bus.batch`.
        """
        answer_s = PUT_S + sum(len(write.data) for write in writes) / PUT_BYTES_PER_S
        batch = asyncio.create_task(self._bus.batch(writes, timeout_s=answer_s), name="pack-put")
        try:
            while not (await asyncio.wait({batch}, timeout=LOOK_EVERY_S))[0]:
                try:
                    await self._probe(shard)
                except Unavailable as exc:
                    raise OutcomeUnknown(f"put of {writes[0].subject}: {exc}") from exc
            await batch
        finally:
            batch.cancel()

    async def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        """Return a pack's bytes, several parts at once; see `BlobStore`."""
        where = parse_key(key)
        if start < 0 or (length is not None and length < 0):
            raise InvalidMessage(f"get {key}: bytes {start} and on, {length} of them")
        first = start // PART_BYTES
        try:
            size, part = await self._part(where, first)
        except NotFound:
            if start < (size := await self.size(key)):
                raise
            part = b""
        if start > size:
            raise InvalidMessage(f"get {key}: it has {size} bytes, asked from {start}")
        end = size if length is None else min(size, start + length)
        numbers = [number for number in parts_of(start, end) if number != first]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._part(where, number, size)) for number in numbers]
        except ExceptionGroup as exc:
            raise exc.exceptions[0] from exc
        whole = part + b"".join(task.result()[1] for task in tasks)
        return whole[start - first * PART_BYTES : end - first * PART_BYTES]

    async def size(self, key: str) -> int:
        """Return a pack's size, by the word of the leader; see `BlobStore`."""
        where = parse_key(key)
        return _size_of(await self._from_leader(where, HEAD), key)

    async def list(self, prefix: str = "") -> AsyncIterator[StoredPack]:
        """Yield all packs; see `BlobStore`."""
        tenant, session = parse_prefix(prefix)
        for shard in range(SHARDS):
            heads = packs.subject(shard, tenant or "*", session or "*", "*", HEAD)
            async for head in self._bus.scan(packs.stream(shard), heads):
                owner, of, name = packs.parse(head.subject)
                key = f"{folder(owner, of)}{name}"
                yield StoredPack(key, _size_of(head, key), head.time_ms)

    async def delete(self, key: str) -> None:
        """Remove a pack; see `BlobStore`."""
        where = parse_key(key)
        stream = packs.stream(_shard_of(where))
        await self._bus.js_api(
            f"STREAM.PURGE.{stream}", {"filter": _subject(where, "*")}, timeout_s=READ_S
        )

    async def close(self) -> None:
        """Close the connection."""
        await self._bus.close()

    async def _part(
        self, where: PackKey, number: int, size: int | None = None
    ) -> tuple[int, bytes]:
        """Return the pack's size, which must be `size` where that is known, and one of its parts."""
        async with self._reads:
            found = await self._read(where, str(number))
        return _checked(where, number, size, found)

    async def _read(self, where: PackKey, part: str) -> Message | Stored:
        """Return a message, tried again for as long as `STALL_S`."""
        began = time.monotonic()
        while True:
            try:
                return await self._ask(where, part)
            except (OutcomeUnknown, Unavailable) as exc:
                if time.monotonic() - began > STALL_S:
                    raise Unavailable(
                        f"get {where}: not readable for {STALL_S:.0f} s: {exc}"
                    ) from exc
            await asyncio.sleep(random.uniform(*PAUSE_S))

    async def _ask(self, where: PackKey, part: str) -> Message | Stored:
        """Return a message as any replica has it; that there is none is the leader's word."""
        subject = _subject(where, part)
        direct = f"$JS.API.DIRECT.GET.{packs.stream(_shard_of(where))}.{subject}"
        answer = await self._bus.request(direct, timeout_s=READ_S)
        match is_status(answer):
            case None:
                return answer
            case "404":
                return await self._from_leader(where, part)
            case status:
                raise Unavailable(f"{subject}: status {status}")

    async def _from_leader(self, where: PackKey, part: str) -> Stored:
        stream, subject = packs.stream(_shard_of(where)), _subject(where, part)
        found = await self._bus.read_last(stream, subject, timeout_s=READ_S)
        if found is None:
            what = "no such pack" if part == HEAD else f"no part {part} of it"
            raise NotFound(f"{where}: there is {what}")
        return found


def _shard_of(where: PackKey) -> int:
    if not where.place.isdecimal() or int(where.place) >= SHARDS:
        raise InvalidMessage(f"{where}: not a pack of this store: its name tells no shard")
    return int(where.place)


def _subject(where: PackKey, part: str) -> str:
    return packs.subject(_shard_of(where), where.tenant, where.session, where.name, part)


def _size_of(found: Any, what: str) -> int:
    size = found.headers.get(SIZE, "")
    if not size.isdecimal():
        raise InvalidMessage(f"{what}: no size in its header {SIZE}: {size[:40]!r}")
    return int(size)


def _checked(
    where: PackKey, number: int, size: int | None, found: Message | Stored
) -> tuple[int, bytes]:
    real = _size_of(found, str(where))
    if size is not None and size != real:
        raise InvalidMessage(f"{where}: part {number} is of a pack of {real} bytes, not {size}")
    if len(found.data) != part_size(number, real):
        raise InvalidMessage(
            f"{where}: part {number} has {len(found.data)} bytes instead of {part_size(number, real)}"
        )
    return real, found.data
