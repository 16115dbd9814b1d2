"""Removes the folders of sessions that have ended, soon after their end is heard, and what nobody heard of by a look at all."""

from __future__ import annotations

import asyncio
import random
import time
from functools import partial

from shared import logs
from shared.errors import ServiceError
from shared.record import ENDED, Record
from volume_keeper.core.places import read_session, session_name
from volume_keeper.loops.serve import in_thread
from volume_keeper.ports import Folders, Records

log = logs.get(__name__)

TICK_S = 1.0
DUE_MAX = 10_000
"""Ended sessions whose turn has not come; others are found by the next look."""
POD_KEPT_S = 3600.0
"""A pod's folder is cleared away when neither it nor its worker said anything for so long."""


class Forgetter:
    """One keeper's part of it; all steps are safe when several do them."""

    def __init__(self, folders: Folders, records: Records, *, pool: str, look_s: float) -> None:
        """Look at everything about every `look_s` seconds."""
        self._folders = folders
        self._records = records
        self._pool = pool
        self._look_s = look_s
        self._due: set[str] = set()
        self._heard: dict[str, float] = {}
        self._began = time.monotonic()
        self._look_at = self._began + random.uniform(0.1, 1) * look_s

    def heard_record(self, record: Record) -> None:
        """A record was stored."""
        if record.pool == self._pool and record.state in ENDED and len(self._due) < DUE_MAX:
            self._due.add(session_name(record.tenant, record.session))

    def heard_worker(self, pod: str) -> None:
        """A worker of the pool lives."""
        self._heard[pod] = time.monotonic()

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
            name = self._due.pop()
            await in_thread(partial(self._folders.discard, name))
        await in_thread(self._folders.clear_trash)
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + random.uniform(0.75, 1.25) * self._look_s
            await self._look()

    async def _look(self) -> None:
        for name in await in_thread(self._folders.sessions):
            who = read_session(name)
            assert who is not None, "only such are listed"
            record = await self._records.read(*who)
            # A record is there before the folder, and goes two days after the session's end.
            if record is None or record.state in ENDED:
                log.info("files.discarded", session_id=who[1])
                await in_thread(partial(self._folders.discard, name))
        now = time.monotonic()
        if now - self._began < POD_KEPT_S:
            return  # it has not heard everybody yet
        for pod in [pod for pod, at in self._heard.items() if now - at > POD_KEPT_S]:
            del self._heard[pod]
        alive = frozenset(self._heard)
        cleared = await in_thread(lambda: self._folders.clear_pods(alive, POD_KEPT_S))
        if cleared:
            log.info("pods.cleared", folders=cleared)
