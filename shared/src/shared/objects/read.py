"""Reading an object."""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
from collections import deque
from collections.abc import AsyncGenerator
from functools import partial

from shared.bus import Bus
from shared.errors import InvalidMessage, NotFound, OutcomeUnknown, Unavailable
from shared.files import ObjectRef
from shared.objects.chunks import BusChunks, Chunks
from shared.objects.window import ANSWER_S, STALL_S, Window, end

MISSING_S = 3.0
"""A chunk that a server does not have yet may be on another one: so long it is asked for again."""
PAUSE_S = (0.05, 0.25)


def read_object(
    bus: Bus, tenant: str, reference: ObjectRef, *, stall_s: float = STALL_S
) -> AsyncGenerator[bytes, None]:
    """Yield an object's chunks in order, through a connection; see `read_chunks`."""
    return read_chunks(BusChunks(bus, tenant), reference, stall_s=stall_s)


async def read_chunks(
    chunks: Chunks, reference: ObjectRef, *, stall_s: float = STALL_S
) -> AsyncGenerator[bytes, None]:
    """Yield an object's chunks in order. Only an iterator that comes to its end has yielded what was meant.

    Close it (`contextlib.aclosing`) if you leave it early: chunks are on the way.

    Raises:
        NotFound: a chunk is not there; names the object and the chunk.
        InvalidMessage: a chunk's size or the digest is not as the reference says.
        Forbidden: the credential does not allow it.
        Unavailable: a chunk could not be read for `stall_s` seconds.
    """
    window = Window()
    digest = hashlib.sha256()
    asked: deque[asyncio.Task[bytes]] = deque()
    number = 0
    try:
        while asked or number < reference.chunks:
            while number < reference.chunks and len(asked) < window.size:
                fetch = partial(_fetch, chunks, reference, number, stall_s)
                asked.append(window.start(fetch))
                number += 1
            chunk = await asked[0]
            del asked[0]
            digest.update(chunk)
            yield chunk
    finally:
        await end(asked)
    if digest.hexdigest() != reference.sha256:
        raise InvalidMessage(
            f"object {reference.id}: its sha256 is {digest.hexdigest()}, the reference says {reference.sha256}"
        )


async def _fetch(chunks: Chunks, reference: ObjectRef, number: int, stall_s: float) -> bytes:
    began = time.monotonic()
    missing_since: float | None = None
    what = f"object {reference.id}: chunk {number} of {reference.chunks}"
    while True:
        now = time.monotonic()
        try:
            chunk = await chunks.get(reference.id, number, within_s=ANSWER_S)
        except (OutcomeUnknown, Unavailable) as exc:
            if now - began > stall_s:
                raise Unavailable(f"{what}: not readable for {stall_s:.0f} s: {exc}") from exc
            chunk = None
        else:
            if chunk is None:
                missing_since = missing_since or now
                if now - missing_since > MISSING_S:
                    raise NotFound(f"{what} is not there: never stored, dropped, or too old")
        if chunk is not None:
            if len(chunk) != reference.chunk_size(number):
                raise InvalidMessage(
                    f"{what} has {len(chunk)} bytes, the reference says {reference.chunk_size(number)}"
                )
            return chunk
        await asyncio.sleep(random.uniform(*PAUSE_S))
