"""A store as the rest of the checkpointer sees it: reads are tried again, uploads under new names, all within bounds.

It knows how the store is, from what its calls came to: whoever waits for it can say since when, and why.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from checkpointer.core.patience import StoreState, after_failure, after_success, wait_s
from checkpointer.ports.blobs import BlobStore, PackMissing, StoredPack
from shared import logs
from shared.errors import (
    AlreadyDone,
    LimitExceeded,
    NotFound,
    OutcomeUnknown,
    Rejected,
    ServiceError,
    Unavailable,
)

log = logs.get(__name__)

STALL_S = 300.0
"""Longest time for one call, all tries together, seconds."""
SLOW_S = 3.0
"""A call that takes longer is told to whoever waits for it."""
T = TypeVar("T")


class PatientStore:
    """A `BlobStore` around another."""

    def __init__(self, store: BlobStore, *, stall_s: float = STALL_S) -> None:
        """Believe the store to be up.

        Args:
            store: what is asked.
            stall_s: longest time for one call, all tries together, seconds.
        """
        self.state = StoreState(since_s=time.monotonic())
        """How the store is, by the newest call."""
        self.stall_s = stall_s
        self._store = store
        self._asked: dict[object, float] = {}
        """Since when each call is under way."""

    @property
    def waits(self) -> str:
        """Why jobs wait for the store now; empty: they don't. A store that takes its time need not be down."""
        if not self.state.up:
            return self.state.reason
        since = min(self._asked.values(), default=None)
        is_slow = since is not None and time.monotonic() - since > SLOW_S
        return f"the store of packs has not answered for {SLOW_S:g} s" if is_slow else ""

    @property
    def id(self) -> str:
        """See `BlobStore`."""
        return self._store.id

    @property
    def pack_bytes(self) -> int:
        """See `BlobStore`."""
        return self._store.pack_bytes

    def new_key(self, tenant: str, session: str) -> str:
        """See `BlobStore`."""
        return self._store.new_key(tenant, session)

    async def upload(self, tenant: str, session: str, data: bytes) -> str:
        """Store a pack under a name that is new with each try; return its key.

        What a try leaves that was not answered is nobody's: the next collection of garbage takes it.

        Raises:
            LimitExceeded: the store is full, or the pack too large; names the limit.
            Unavailable: not stored for `stall_s` seconds.
            Rejected: others: it never will be.
        """

        async def put() -> str:
            key = self._store.new_key(tenant, session)
            # Of the same name: an earlier message of our own that was not answered. Another name is surely ours.
            with suppress(AlreadyDone):
                await self._store.put(key, data)
                return key
            raise Unavailable(f"put {key}: the name is taken")

        return await self._try(put)

    async def put(self, key: str, data: bytes) -> None:
        """See `BlobStore`: one try."""
        await self._note(lambda: self._store.put(key, data))

    async def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        """See `BlobStore`; a pack that is not there is `PackMissing`."""
        with _missing():
            return await self._try(lambda: self._store.get(key, start, length))

    async def size(self, key: str) -> int:
        """See `BlobStore`; a pack that is not there is `PackMissing`."""
        with _missing():
            return await self._try(lambda: self._store.size(key))

    async def delete(self, key: str) -> None:
        """See `BlobStore`."""
        await self._try(lambda: self._store.delete(key))

    async def list(self, prefix: str = "") -> AsyncIterator[StoredPack]:
        """See `BlobStore`: one try, since what was yielded cannot be taken back."""
        try:
            async for pack in self._store.list(prefix):
                yield pack
        except ServiceError as exc:
            self._failed(exc)
            raise
        self._answered()

    async def close(self) -> None:
        """See `BlobStore`."""
        await self._store.close()

    async def _try(self, call: Callable[[], Awaitable[T]]) -> T:
        """Call until there is an answer.

        Raises:
            Unavailable: none for `stall_s`.
        """
        end = time.monotonic() + self.stall_s
        tries = 0
        while True:
            try:
                return await self._note(call)
            except (Unavailable, OutcomeUnknown) as exc:
                tries += 1
                pause_s = wait_s(tries, random.random())
                if time.monotonic() + pause_s > end:
                    raise Unavailable(f"for {self.stall_s:.0f} s: {exc}") from exc
                await asyncio.sleep(pause_s)

    async def _note(self, call: Callable[[], Awaitable[T]]) -> T:
        mine = object()
        self._asked[mine] = time.monotonic()
        try:
            answer = await call()
        except ServiceError as exc:
            self._failed(exc)
            raise
        finally:
            del self._asked[mine]
        self._answered()
        return answer

    def _answered(self) -> None:
        if not self.state.up:
            log.info("store.back", down_s=round(time.monotonic() - self.state.since_s, 1))
        self.state = after_success(self.state, time.monotonic())

    def _failed(self, error: ServiceError) -> None:
        if isinstance(error, Rejected) and not isinstance(error, LimitExceeded):
            self._answered()
            return
        if self.state.up:
            log.warning("store.down", code=error.code, error=str(error))
        self.state = after_failure(self.state, str(error), time.monotonic())


@contextmanager
def _missing() -> Iterator[None]:
    """Tell a pack that is not in the store from all else that is not found."""
    try:
        yield
    except NotFound as exc:
        raise PackMissing(str(exc)) from exc
