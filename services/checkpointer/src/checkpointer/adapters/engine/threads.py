"""A store for threads: calls are made on the event loop, and waited for with a deadline."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any, Final, Protocol, TypeVar

from shared.errors import Draining, ServiceError, Unavailable

T = TypeVar("T")

CALL_S: Final = 320.0
"""Longest time for one call; the store gives up before that."""
UPLOADS_MAX: Final = 4


class Packs(Protocol):
    """What the pipelines need of a store."""

    @property
    def id(self) -> str:
        """Which store this is, for ever."""
        ...

    @property
    def pack_bytes(self) -> int:
        """Size that packs should have here, bytes."""
        ...

    async def upload(self, tenant: str, session: str, data: bytes) -> str:
        """Store a pack under a name that is new with each try; return its key."""
        ...

    async def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        """Return a pack's bytes."""
        ...

    async def size(self, key: str) -> int:
        """Return a pack's size, bytes."""
        ...

    async def delete(self, key: str) -> None:
        """Remove a pack; none there is no error."""
        ...


class Bridge:
    """One job's way to the store. `stop` ends the job at its next call or check."""

    def __init__(self, store: Packs, loop: asyncio.AbstractEventLoop) -> None:
        """Make calls on this loop."""
        self.store = store
        self._loop = loop
        self._stopped = threading.Event()
        self._under_way: set[Future[Any]] = set()

    def stop(self) -> None:
        """Let the job's threads end soon: calls that are under way are cancelled."""
        self._stopped.set()
        for future in list(self._under_way):
            future.cancel()

    def check(self) -> None:
        """Go on, or not.

        Raises:
            Draining: `stop` was called.
        """
        if self._stopped.is_set():
            raise Draining("the job was broken off")

    def start(self, call: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin a call.

        Raises:
            Draining: `stop` was called.
        """
        if self._stopped.is_set():
            call.close()
            raise Draining("the job was broken off")
        future = asyncio.run_coroutine_threadsafe(call, self._loop)
        self._under_way.add(future)
        future.add_done_callback(self._under_way.discard)
        if self._stopped.is_set():  # meanwhile
            future.cancel()
        return future

    def wait(self, future: Future[T]) -> T:
        """Return what a call came to.

        Raises:
            ServiceError: what it raised.
            Unavailable: no answer in `CALL_S`.
        """
        try:
            return future.result(CALL_S)
        except TimeoutError as exc:
            future.cancel()
            raise Unavailable(f"the store did not answer in {CALL_S:.0f} s") from exc
        except CancelledError as exc:
            raise Draining("the job was broken off") from exc

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        """Return a part of a pack."""
        return self.wait(self.start(self.store.get(key, start, length)))

    def size(self, key: str) -> int:
        """Return a pack's size."""
        return self.wait(self.start(self.store.size(key)))

    def delete(self, key: str) -> None:
        """Remove a pack."""
        self.wait(self.start(self.store.delete(key)))


class Uploads:
    """Packs on their way, `UPLOADS_MAX` at once, their keys in the order in which they were given."""

    def __init__(self, bridge: Bridge, tenant: str, session: str) -> None:
        """Begin with none."""
        self._bridge = bridge
        self._owner = (tenant, session)
        self._under_way: deque[Future[str]] = deque()
        self._keys: list[str] = []
        self.stored_bytes = 0

    def put(self, data: bytes) -> None:
        """Send a pack; wait first while too many are under way.

        Raises:
            ServiceError: an earlier one was not stored.
        """
        while len(self._under_way) >= UPLOADS_MAX:
            self._keys.append(self._bridge.wait(self._under_way.popleft()))
        self._under_way.append(self._bridge.start(self._bridge.store.upload(*self._owner, data)))
        self.stored_bytes += len(data)

    def keys(self) -> list[str]:
        """Wait for all, and return their keys.

        Raises:
            ServiceError: one was not stored.
        """
        while self._under_way:
            self._keys.append(self._bridge.wait(self._under_way.popleft()))
        return self._keys

    def abandon(self) -> None:
        """Give up what is under way; what arrives all the same is garbage that a collection takes."""
        for future in self._under_way:
            future.cancel()

    def take_back(self) -> None:
        """Remove what was stored, as far as that can be done now: nobody will use it, and the store may be full of it."""
        while self._under_way:
            with suppress(ServiceError):
                self._keys.append(self._bridge.wait(self._under_way.popleft()))
        with suppress(ServiceError):  # a collection takes the others
            for key in self._keys:
                self._bridge.delete(key)
