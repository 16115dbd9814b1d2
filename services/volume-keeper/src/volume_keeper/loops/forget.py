"""Removes the folders of sessions that have ended, soon after their end is heard, and what nobody heard of by a look at all."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from shared import logs
from shared.errors import ServiceError
from shared.metrics import Book, declared
from shared.record import ENDED, Record
from volume_keeper.core.places import read_session, session_name
from volume_keeper.loops.threads import Threads
from volume_keeper.ports import Folders, Records

log = logs.get(__name__)

TICK_S = 1.0
DUE_MAX = 10_000
"""Ended sessions whose turn has not come; others are found by the next look."""
POD_KEPT_S = 3600.0
"""A pod's folder is cleared away when neither it nor its worker said anything for so long."""
UNKNOWN_KEPT_S = 3600.0
"""The folder of a session without a record stays at least so long after its last taking."""
UNKNOWN_LOOKS = 3
"""So many looks in a row must find no record: a server that is cut off may show an old state for a while."""
STEP_S = 60.0
"""Longest call to the volume: a look at very many folders, over a slow network."""

T = TypeVar("T")


class Forgetter:
    """One keeper's part of it; all steps are safe when several do them."""

    def __init__(
        self, folders: Folders, records: Records, threads: Threads, pool: str, look_s: float
    ) -> None:
        """Forget what lies on a volume.

        Args:
            folders: the volume.
            records: the sessions'.
            threads: calls the volume; not those of the desk, so that neither waits for the other.
            pool: whose it is.
            look_s: about so often everything is looked at.
        """
        self.book: Book | None = None
        """Where is noted what was seen."""
        self._folders = folders
        self._records = records
        self._threads = threads
        self._pool = pool
        self._look_s = look_s
        self._due: set[str] = set()
        self._heard: dict[str, float] = {}
        self._unknown: dict[str, int] = {}
        """Folders whose sessions have no record, and at how many looks."""
        self._hears_since: float | None = time.monotonic()
        """None: it is cut off."""
        self._look_at = self._hears_since + random.uniform(0.1, 1) * look_s

    def heard_record(self, record: Record) -> None:
        """A record was stored."""
        if record.pool == self._pool and record.state in ENDED and len(self._due) < DUE_MAX:
            self._due.add(session_name(record.tenant, record.session))

    def heard_worker(self, pod: str) -> None:
        """A worker of the pool lives."""
        self._heard[pod] = time.monotonic()

    def lost(self) -> None:
        """The connection is lost: that nothing is heard of a worker says nothing now."""
        self._hears_since = None

    def restored(self) -> None:
        """There is a connection again."""
        self._hears_since = time.monotonic()

    async def run(self) -> None:
        """Forget what is due, until cancelled."""
        while True:
            await asyncio.sleep(TICK_S)
            try:
                await self._tick()
            except ServiceError as exc:
                log.warning("volume.not_tidied", code=exc.code, error=str(exc))

    async def _tick(self) -> None:
        while self._due:
            await self._discard(self._due.pop())
        await self._call(self._folders.clear_trash)
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + random.uniform(0.75, 1.25) * self._look_s
            await self.look()

    async def _discard(self, name: str) -> None:
        """Discard one folder; one that can't be keeps nothing else waiting, and is found again by the next look."""
        try:
            await self._call(partial(self._folders.discard, name))
        except ServiceError as exc:
            log.warning("files.not_discarded", name=name, code=exc.code, error=str(exc))

    async def look(self) -> None:
        """Look at all that lies there.

        Raises:
            ServiceError: records can't be read now, or the storage refuses; the next look goes on.
        """
        names = await self._call(self._folders.sessions)
        await self._note(len(names))
        self._unknown = {name: self._unknown[name] for name in names if name in self._unknown}
        for name in names:
            who = read_session(name)
            assert who is not None, "only such are listed"
            record = await self._records.read(*who)
            if await self._is_over(name, record):
                log.info("files.discarded", session_id=who[1])
                await self._discard(name)
        await self._clear_pods()

    async def _note(self, sessions: int) -> None:
        size, free = await self._call(self._folders.room)
        if self.book is None:
            return
        for metric, value in (
            (declared.VOLUME_SESSIONS, sessions),
            (declared.VOLUME_SIZE, size),
            (declared.VOLUME_FREE, free),
        ):
            self.book.set(metric, self._pool, value=value)

    async def _call(self, act: Callable[[], T]) -> T:
        return await self._threads.run(act, STEP_S)

    async def _is_over(self, name: str, record: Record | None) -> bool:
        # A record is there before the folder, and goes two days after the session's end.
        if record is not None:
            self._unknown.pop(name, None)
            return record.state in ENDED
        self._unknown[name] = self._unknown.get(name, 0) + 1
        if self._unknown[name] < UNKNOWN_LOOKS:
            return False
        return await self._call(partial(self._folders.taken_s_ago, name)) >= UNKNOWN_KEPT_S

    async def _clear_pods(self) -> None:
        now = time.monotonic()
        if self._hears_since is None or now - self._hears_since < POD_KEPT_S:
            return  # it has not heard everybody yet
        for pod in [pod for pod, at in self._heard.items() if now - at > POD_KEPT_S]:
            del self._heard[pod]
        alive = frozenset(self._heard)
        cleared = await self._call(lambda: self._folders.clear_pods(alive, POD_KEPT_S))
        if cleared:
            log.info("pods.cleared", folders=cleared)
