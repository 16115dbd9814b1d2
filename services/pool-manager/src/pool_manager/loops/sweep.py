"""Finds what events missed: lost tokens, sleepers with work, inboxes that nobody will read."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from functools import partial
from typing import NamedTuple

from pool_manager.core.table import Row, key_of
from pool_manager.core.tokens import Tokens, message_id
from pool_manager.core.wakes import Wake, is_needed
from pool_manager.core.world import World
from pool_manager.loops.hands import Hands
from pool_manager.loops.overdue import Overdue
from pool_manager.loops.quota import QuotaKeeper
from pool_manager.loops.wake import Waker
from pool_manager.ports import Entry, Known, Queue, Truth
from shared import logs
from shared.classes import CLIENT_CLASSES
from shared.errors import ServiceError
from shared.ids import SHARDS, can_be_found, home
from shared.record import ENDED, Record

log = logs.get(__name__)

TICK_S = 0.5
INBOX_EVERY_S = 10.0
PURGE_AT = 16
"""Entries of an owned session, done with or not, from which those that are done with are removed."""
ASKS_READ_MAX = 32
"""Entries of one inbox that are read for the class that they ask for."""
UNKNOWN_AGAIN_S = 60.0
"""Between two looks at the inbox of a session without a record."""


class Keepers(NamedTuple):
    """Who else is shown what waits in inboxes."""

    quotas: QuotaKeeper
    overdue: Overdue


class Sweeper:
    """Looks after sessions that nobody owns, each by the pool-manager whose turn it is."""

    def __init__(
        self, world: World, truth: Truth, queue: Queue, waker: Waker, keepers: Keepers
    ) -> None:
        """Work on what `world` knows."""
        self.every_s = INBOX_EVERY_S
        self.hands = Hands("sweep", count=8, pending_max=4096)
        self._world = world
        self._truth = truth
        self._queue = queue
        self._waker = waker
        self._quotas, self._overdue = keepers
        self._tokens = Tokens()
        self._survey_at = 0.0
        self._unknown: dict[str, float] = {}
        """Session without a record -> when to look again."""

    async def run(self) -> None:
        """Sweep until cancelled."""
        self.survey_soon()
        while True:
            await asyncio.sleep(TICK_S)
            now = time.monotonic()
            self._wake_waiting(now)
            await self._sweep_tokens(now)
            if now >= self._survey_at:
                self._survey_at = now + self.every_s
                for shard in range(SHARDS):
                    if self._world.peers.is_first(f"inbox/{shard}", now):
                        await self._survey_shard(shard, now)

    def survey_soon(self) -> None:
        """Wake-ups may have been missed: look into the inboxes at the next occasion."""
        self._survey_at = 0.0

    # --- queued and waiting ----------------------------------------------------------------------------------------

    def _wake_waiting(self, now: float) -> None:
        now_ms = time.time() * 1000
        for key, row in list(self._world.table.waiting.items()):
            if row.record.wake_at_ms <= now_ms and self._world.peers.is_first(key, now):
                known = Known(row.record, row.seq)
                self.hands.offer(key, partial(self._waker.wake, known, row.record.client_lane))

    async def _sweep_tokens(self, now: float) -> None:
        """Send tokens again that are surely lost."""
        oldest: dict[tuple[int, str, str], int | None] = {}
        for row in self._tokens.due(self._world.table.queued, now):
            if not self._world.peers.is_first(row.key, now):
                continue
            record = row.record
            lane = (home(record.session), record.pool, record.lane)
            if lane not in oldest:
                try:
                    message = await self._queue.next_message(*lane, after_seq=0)
                except ServiceError:
                    message = None  # the shard does not answer: a token there is as good as lost
                oldest[lane] = message.accepted_ms if message else None
            if self._tokens.is_lost(row, oldest[lane]):
                self.hands.offer(row.key, partial(self._send_again, row))
            else:
                self._tokens.looked(row, now)

    async def _send_again(self, row: Row) -> None:
        now_ms = int(time.time() * 1000)
        self._tokens.sent(row, now=time.monotonic(), wall_ms=now_ms)
        name = message_id(row.record.session, row.seq, now_ms)
        await self._queue.send_token(row.record, name)
        log.info("token.sent_again", session_id=row.record.session, lane=row.record.lane)

    # --- inboxes ---------------------------------------------------------------------------------------------------

    async def _survey_shard(self, shard: int, now: float) -> None:
        try:
            await self._survey(shard, now)
        except ServiceError as exc:  # the other shards do not wait for this one
            log.debug("sweep.failed", shard=shard, code=exc.code, error=str(exc))

    async def _survey(self, shard: int, now: float) -> None:
        """See to every inbox of a shard that no owner reads."""
        sessions: Counter[tuple[str, str]] = Counter()
        for tenant, session, task in await self._truth.inbox_subjects(shard):
            if can_be_found(session) and can_be_found(task):
                sessions[tenant, session] += 1
            else:
                bury = partial(self._overdue.refuse_unnamed, shard, tenant)
                self.hands.offer(f"unnamed:{shard}.{tenant}", bury)
        self._quotas.counted(sessions)
        present = {key_of(*session) for session in sessions}
        self._overdue.emptied(shard, present)
        for key in [key for key in self._unknown if key not in present]:
            if home(key.split(".", 1)[1]) == shard:
                del self._unknown[key]
        for (tenant, session), entries in sessions.items():
            key = key_of(tenant, session)
            row = self._world.table.get(key)
            if row is not None and row.record.state in ("running", "rescuing", "forking"):
                if entries >= PURGE_AT:
                    self.hands.offer(f"purge:{key}", partial(self._purge, row))
                if self._overdue.wants(key, entries, row.record.position):
                    known = Known(row.record, row.seq)
                    look = partial(self._overdue.look, tenant, session, known, entries)
                    self.hands.offer(f"inbox:{key}", look)
            elif row is not None or now >= self._unknown.get(key, 0.0):
                self.hands.offer(f"inbox:{key}", partial(self._see_to, tenant, session, entries))

    async def _purge(self, row: Row) -> None:
        record = row.record
        await self._truth.purge_inbox(record.tenant, record.session, record.position)

    async def _see_to(self, tenant: str, session: str, entries: int) -> None:
        known = await self._truth.read(tenant, session)
        if known is None:
            # Its first task may still wait in a lane, for a day.
            self._unknown[key_of(tenant, session)] = time.monotonic() + min(
                UNKNOWN_AGAIN_S, self.every_s * 6
            )
            await self._overdue.look(tenant, session, None, entries)
            return
        record = known.record
        self._world.on_record(record, known.seq, now=time.monotonic(), stored_ms=known.stored_ms)
        if record.state in ENDED:
            await self._waker.refuse_inbox(record)
            return
        entry = await self._truth.next_entry(tenant, session, record.position)
        if entry is None:
            await self._truth.purge_inbox(tenant, session, record.position)
            return
        if record.state == "idle":
            self._waker.offer(await self._asked(entry, record))
        elif is_needed(wake := await self._asked(entry, record), record):
            self._waker.offer(wake)
        await self._overdue.look(tenant, session, known, entries)

    async def _asked(self, entry: Entry, record: Record) -> Wake:
        """Return the wake-up that the first entry without a result and those behind it are worth."""
        asks = {entry.klass}
        after = entry
        for _ in range(ASKS_READ_MAX):
            if CLIENT_CLASSES[0] in (klass or record.client_lane for klass in asks):
                break
            found = await self._truth.next_entry(record.tenant, record.session, after.seq)
            if found is None:
                break
            after = found
            asks.add(after.klass)
        return Wake(record.tenant, record.session, None, frozenset(asks))
