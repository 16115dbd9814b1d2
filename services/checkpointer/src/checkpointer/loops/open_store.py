"""Opens the store of packs, again and again until it can be used: the service is there meanwhile, and says why it is not."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from checkpointer.loops.patient_store import PatientStore
from checkpointer.ports.engine import Engine, Owner, Place, Progress
from shared import logs
from shared.errors import ServiceError, Unavailable
from shared.workspace import Mark, SnapshotRef

log = logs.get(__name__)

FIRST_S = 0.2
MAX_S = 5.0
OPENS_S = 5.0
LOOK_S = 1.0
NOBODYS = "none/none/none"


class Opening:
    """The engine on a store that may not be open yet (an `Engine`)."""

    def __init__(
        self,
        open_store: Callable[[], Awaitable[PatientStore]],
        make_engine: Callable[[PatientStore], Engine],
    ) -> None:
        """Open nothing yet."""
        self._open = open_store
        self._make = make_engine
        self._store: PatientStore | None = None
        self._engine: Engine | None = None
        self._why = "it is not open yet"
        self._opened = asyncio.Event()

    async def run(self) -> None:
        """Open the store, then ask it for a sign of life whenever a call to it failed, until cancelled."""
        pause_s = FIRST_S
        while self._store is None:
            try:
                self._store = await self._open()
            except ServiceError as exc:
                if str(exc) != self._why:
                    log.warning("store.not_open", code=exc.code, error=str(exc))
                self._why = str(exc)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, MAX_S)
        self._engine = self._make(self._store)
        self._opened.set()
        log.info("store.open", store=self._store.id)
        while True:
            await asyncio.sleep(LOOK_S)
            if not self._store.state.up:
                with contextlib.suppress(ServiceError):  # there is none of that name: it answers
                    await self._store.size(NOBODYS)

    async def close(self) -> None:
        """Close the store, if it is open."""
        if self._store is not None:
            await self._store.close()

    @property
    def store(self) -> PatientStore:
        """The store.

        Raises:
            Unavailable: it is not open yet.
        """
        if self._store is None:
            raise Unavailable(f"the store of packs: {self._why}")
        return self._store

    @property
    def id(self) -> str:
        """Of the store; empty: not known yet."""
        return "" if self._store is None else self._store.id

    def problem(self) -> str:
        """Return why the store can't be used now; empty: it can, as far as is known."""
        if self._store is None:
            return self._why
        state = self._store.state
        return "" if state.up else state.reason

    def waits(self) -> str:
        """Return why jobs wait for the store now, be it up or not; empty: they don't."""
        return self._why if self._store is None else self._store.waits

    async def save(
        self, place: Place, owner: Owner, parent: SnapshotRef | None, progress: Progress
    ) -> SnapshotRef | None:
        """See `Engine`."""
        return await (await self._there()).save(place, owner, parent, progress)

    async def mark(self, pod: str) -> Mark | None:
        """See `Engine`."""
        return await (await self._there()).mark(pod)

    async def restore(self, place: Place, snapshot: SnapshotRef, progress: Progress) -> None:
        """See `Engine`."""
        await (await self._there()).restore(place, snapshot, progress)

    async def _there(self) -> Engine:
        """Return the engine. A process that has just started is asked at once, and opens its store in a moment.

        Raises:
            Unavailable: the store is not open after `OPENS_S` seconds.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(OPENS_S):
                await self._opened.wait()
        if self._engine is None:
            raise Unavailable(f"the store of packs: {self._why}")
        return self._engine
