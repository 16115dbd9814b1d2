"""Deletes the workspaces of sessions that have ended, soon after their end is heard, and collects what others outlive.

Every checkpointer hears every end, and all of them may act on it: each step is a compare-and-set on the session's head. A
pause of random length leaves it to one of them mostly. What nobody heard is found by a look at all heads now and then.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable

from checkpointer.core.retention import kept
from checkpointer.core.roots import roots_of
from checkpointer.loops.collect_garbage import Collector
from checkpointer.loops.delete_session import Deleter
from checkpointer.loops.find_orphans import find_orphans
from checkpointer.loops.scrub import Scrubber
from checkpointer.ports.collecting import Heads, Records
from shared import logs
from shared.errors import Conflict, ServiceError
from shared.record import ENDED, Record
from shared.workspace import WorkspaceHead

log = logs.get(__name__)

TICK_S = 0.2
PAUSE_S = (0.2, 2.0)
"""From the end of a session to the deletion of its workspace."""
SPREAD = (0.75, 1.25)
"""Looks at all heads, as parts of their usual interval: checkpointers are not to look all at once."""
STORE_LOOK_S = (1800.0, 5400.0)
"""Between two looks at all packs."""
SCRUB_S = (300.0, 900.0)
"""Between two sessions whose packs are read whole."""
COLLECT_AT = 8
"""Snapshots that the retention lets go: so many make a collection worth its while."""
DUE_MAX = 10_000
"""Ended sessions that wait for their deletion; others are found by the next look."""

Name = tuple[str, str]
"""(tenant, session)."""


class Caretaker:
    """One checkpointer's part of it."""

    def __init__(
        self,
        heads: Heads,
        records: Records,
        tools: Callable[[], tuple[Deleter, Collector, Scrubber]],
        *,
        look_s: float,
    ) -> None:
        """Look at `heads` about every `look_s` seconds; `tools` raises Unavailable while the store is not open."""
        self._heads = heads
        self._records = records
        self._tools = tools
        self._due: dict[Name, float] = {}
        self._look_at = time.monotonic() + random.uniform(*PAUSE_S)
        self.look_s = (SPREAD[0] * look_s, SPREAD[1] * look_s)
        self.store_look_s = STORE_LOOK_S
        self.scrub_s = SCRUB_S
        self._scrub_at = time.monotonic() + random.uniform(*SCRUB_S)
        self._store_look_at = time.monotonic() + random.uniform(*STORE_LOOK_S)

    def heard(self, record: Record) -> None:
        """A record was stored."""
        if record.state not in ENDED or len(self._due) >= DUE_MAX:
            return
        if record.boundary is None and record.latest is None and record.base is None:
            return  # nothing was saved that it knows of; what else there is, the next look finds
        self._due[record.tenant, record.session] = time.monotonic() + random.uniform(*PAUSE_S)

    async def run(self) -> None:
        """Delete what is due and look at all now and then, until cancelled."""
        while True:
            await asyncio.sleep(TICK_S)
            now = time.monotonic()
            for name in [name for name, at in self._due.items() if at <= now]:
                del self._due[name]
                await self._delete(name)
            if now >= self._look_at:
                await self._look()
                self._look_at = time.monotonic() + random.uniform(*self.look_s)
            if now >= self._store_look_at:
                await self.look_at_store(_now_ms())
                self._store_look_at = time.monotonic() + random.uniform(*self.store_look_s)
            if now >= self._scrub_at:
                await self.scrub_one()
                self._scrub_at = time.monotonic() + random.uniform(*self.scrub_s)

    async def _delete(self, name: Name) -> None:
        try:
            head, _ = await self._heads.read(*name)
            record = await self._records.read(*name) if head is None else None
            if head is not None or (record is not None and record.base is not None):
                deleter, _, _ = self._tools()
                await deleter.delete(*name, _now_ms())
        except Conflict:
            return  # another one is at it
        except ServiceError as exc:
            log.warning("workspace.not_deleted", session_id=name[1], error=str(exc))

    async def _look(self) -> None:
        """Look at every head: whose session has ended, and which one lists so much that a collection is due."""
        try:
            heads = [head async for head, _ in self._heads.list()]
            for head in heads:
                await self._look_at_one(head)
        except ServiceError as exc:
            log.info("look.broken_off", error=str(exc))

    async def look_at_store(self, now_ms: int) -> None:
        """Look at every pack: remove those of sessions that nobody knows any more."""
        try:
            deleter, collector, _ = self._tools()
            orphans = await find_orphans(collector.store, self._heads, self._records, now_ms)
            for name in orphans:
                done = await deleter.delete(*name, now_ms)
                log.info("orphans.removed", session_id=name[1], packs=done.removed)
        except ServiceError as exc:
            log.info("look.broken_off", error=str(exc))

    async def scrub_one(self) -> None:
        """Read the packs of some session, whichever it is."""
        try:
            heads = [head async for head, _ in self._heads.list() if not head.deleted]
            if heads:
                _, _, scrubber = self._tools()
                head = random.choice(heads)
                await scrubber.scrub(head.tenant, head.session)
        except ServiceError as exc:
            log.info("scrub.broken_off", error=str(exc))

    async def _look_at_one(self, head: WorkspaceHead) -> None:
        record = await self._records.read(head.tenant, head.session)
        if record is None or record.state in ENDED:
            await self._delete((head.tenant, head.session))
            return
        now_ms = _now_ms()
        if len(head.retained) - len(kept(head, roots_of(record), now_ms)) >= COLLECT_AT:
            try:
                _, collector, _ = self._tools()
                await collector.collect(head.tenant, head.session, now_ms)
            except ServiceError as exc:
                log.info("garbage.left", session_id=head.session, error=str(exc))


def _now_ms() -> int:
    return int(time.time() * 1000)
