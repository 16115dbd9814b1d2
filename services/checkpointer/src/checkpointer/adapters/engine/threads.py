"""A store for threads: calls are made on the event loop, and waited for with a deadline."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any, Final, Protocol, TypeVar

from shared.errors import Draining, ServiceError, Unavailable
from shared.limits import TRANSFER_BYTES_MAX

T = TypeVar("T")

CALL_S: Final = 320.0
"""Longest time for one call; the store gives up before that."""
UPLOADS_MAX: Final = 4
UPLOAD_BYTES_MAX: Final = 32 * 1024 * 1024
"""Bytes of one job's packs that are under way at once, unless one alone has more."""
TURN_S: Final = 0.5
"""How often who waits for its turn looks whether its job goes on."""


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


class Transfers:
    """Bytes on their way between a node and its store, of all jobs together: who comes first goes first."""

    def __init__(self, bytes_max: int = TRANSFER_BYTES_MAX) -> None:
        """Let so many bytes be under way; one transfer of more goes alone."""
        self._bytes_max = bytes_max
        self._free = bytes_max
        self._changed = threading.Condition()
        self._waiting: deque[object] = deque()

    def try_take(self, size: int) -> bool:
        """Take room for so many bytes, if there is some and nobody waits for it."""
        size = min(size, self._bytes_max)
        with self._changed:
            if self._waiting or size > self._free:
                return False
            self._free -= size
            return True

    def take(self, size: int, check: Callable[[], None]) -> None:
        """Wait for room. Not for one who holds some: others might wait for that.

        Args:
            size: bytes.
            check: raises when its job does not go on.

        Raises:
            Unavailable: there was none for `CALL_S`.
        """
        size, me = min(size, self._bytes_max), object()
        ends = time.monotonic() + CALL_S
        with self._changed:
            self._waiting.append(me)
            try:
                while self._waiting[0] is not me or size > self._free:
                    check()
                    if time.monotonic() > ends:
                        raise Unavailable(f"no turn for {size} bytes within {CALL_S:.0f} s")
                    self._changed.wait(TURN_S)
                self._free -= size
            finally:
                self._waiting.remove(me)
                self._changed.notify_all()

    def give_back(self, size: int) -> None:
        """Free what was taken."""
        with self._changed:
            self._free += min(size, self._bytes_max)
            self._changed.notify_all()


class Bridge:
    """One job's way to the store. `stop` ends the job at its next call or check."""

    def __init__(
        self, store: Packs, loop: asyncio.AbstractEventLoop, transfers: Transfers | None = None
    ) -> None:
        """Make calls on this loop, as far as the node's other jobs leave room (None: there are none)."""
        self.store = store
        self.transfers = transfers or Transfers()
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

    def take_turn(self, size: int, finish_one: Callable[[], bool]) -> None:
        """Wait until the node's jobs leave room for so many bytes, and take it; see `begin`.

        Args:
            size: bytes.
            finish_one: brings one of this job's own transfers to its end; returns whether there was one. So nobody waits
                for others as long as others may wait for him.

        Raises:
            ServiceError: what `finish_one` raises.
            Draining: `stop` was called.
        """
        while not self.transfers.try_take(size):
            if not finish_one():
                self.transfers.take(size, self.check)
                return

    def begin(self, call: Coroutine[Any, Any, T], size: int) -> Future[T]:
        """Begin a call whose turn was taken; who calls gives the room back, unless this raises.

        Raises:
            Draining: `stop` was called.
        """
        try:
            return self.start(call)
        except BaseException:
            self.transfers.give_back(size)
            raise

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
        self._under_way: deque[tuple[Future[str], int]] = deque()
        self._under_way_bytes = 0
        self._keys: list[str] = []
        self.stored_bytes = 0

    def put(self, data: bytes) -> None:
        """Send a pack; wait first while too much is under way.

        Raises:
            ServiceError: an earlier one was not stored.
        """
        size = len(data)
        while len(self._under_way) >= UPLOADS_MAX or (
            self._under_way and self._under_way_bytes + size > UPLOAD_BYTES_MAX
        ):
            self._await_first()
        self._bridge.take_turn(size, self._await_first)
        bridge = self._bridge
        future = bridge.begin(bridge.store.upload(*self._owner, data), size)
        future.add_done_callback(lambda _: bridge.transfers.give_back(size))
        self._under_way.append((future, size))
        self._under_way_bytes += size
        self.stored_bytes += size

    def _await_first(self) -> bool:
        """Wait for the one that was sent first; return whether there was one."""
        if not self._under_way:
            return False
        future, size = self._under_way.popleft()
        self._under_way_bytes -= size
        self._keys.append(self._bridge.wait(future))
        return True

    def keys(self) -> list[str]:
        """Wait for all, and return their keys.

        Raises:
            ServiceError: one was not stored.
        """
        while self._await_first():
            pass
        return self._keys

    def abandon(self) -> None:
        """Give up what is under way; what arrives all the same is garbage that a collection takes."""
        for future, _ in self._under_way:
            future.cancel()

    def take_back(self) -> None:
        """Remove what was stored, as far as that can be done now: nobody will use it, and the store may be full of it."""
        while self._under_way:
            with suppress(ServiceError):
                self._await_first()
        with suppress(ServiceError):  # a collection takes the others
            for key in self._keys:
                self._bridge.delete(key)
