"""Wakes sessions that nobody owns when something enters their inbox; refuses what ended sessions get."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from pool_manager.core import ends
from pool_manager.core.table import key_of
from pool_manager.core.wakes import Wake, Wakes, is_needed, lane_of
from pool_manager.core.world import World
from pool_manager.loops.entries import put_result
from pool_manager.loops.hands import Hands, wait_for
from pool_manager.loops.note import Notes
from pool_manager.loops.recover import send_token
from pool_manager.ports import Known, Queue, Truth
from shared import logs
from shared.errors import Conflict, OutcomeUnknown, ServiceError, Unavailable
from shared.ids import can_be_found
from shared.record import ENDED, Record
from shared.traces import Trace
from shared.transitions import wake

log = logs.get(__name__)

TICK_S = 0.25
TRIES = 3
AGAIN_S = 0.5
"""After so long a session is woken again whose shard elects its leader, say."""
ENTRIES_MAX = 1000
"""Entries of one ended session that are refused at one go."""


class Waker:
    """Acts on new inbox entries of sessions without an owner.

    Every pool-manager hears every entry; who goes first is agreed by arithmetic, the others follow when the session
    still sleeps after a grace. So an entry that the first one missed waits half a second, not for a sweep.
    """

    def __init__(
        self, world: World, truth: Truth, queue: Queue, notes: Notes | None = None
    ) -> None:
        """Work on what `world` knows; None: nothing is traced."""
        self._notes = notes or Notes()
        self.hands = Hands("wake", count=16, pending_max=4096)
        self._wanted = asyncio.Event()
        self._world = world
        self._truth = truth
        self._queue = queue
        self._wakes = Wakes()

    def trace_of(self, fields: Mapping[str, str], tenant: str, session: str) -> Trace | None:
        """Return the trace of an inbox entry, from its headers as the stream repeats them; None: nothing is traced."""
        return self._notes.of_entry(fields, tenant, session)

    def heard(self, wake: Wake) -> None:
        """Something entered a session's inbox."""
        if self._wakes.heard(wake, self._world.table.get(wake.key)):
            self._wanted.set()

    def noticed(self, record: Record, now: float) -> None:
        """A session changed: what woke it before may be needed now."""
        key = key_of(record.tenant, record.session)
        row = self._world.table.get(key) or self._world.table.ended(key)
        if row is not None and self._wakes.noticed(row, now):
            self._wanted.set()

    def ended(self, record: Record, now: float) -> None:
        """A session has ended: what came in before it knew is refused at once. One-shots that ended well have nothing."""
        if record.keep or record.state != "closed":
            self._wakes.ended(Wake(record.tenant, record.session, None, frozenset({None}), now))
            self._wanted.set()

    async def run(self) -> None:
        """Wake whatever is due, until cancelled."""
        while True:
            await wait_for(self._wanted, TICK_S)
            now = time.monotonic()
            for key, due in list(self._wakes.due.items()):
                row = self._world.table.get(key)
                if row is not None and not is_needed(due, row.record):
                    self._wakes.taken(key)
                    self._wakes.keep(due, row.record)
                elif self._world.peers.may_act(key, since=due.since, now=now) and self.offer(due):
                    self._wakes.taken(key)

    def offer(self, due: Wake) -> bool:
        """See to a session that has something in its inbox and no owner."""
        return self.hands.offer(due.key, lambda: self._see_to(due))

    async def _see_to(self, due: Wake) -> None:
        """Act on a wake-up; where the shard does not take it, again a moment later, for as long as it is needed."""
        is_done = False
        try:
            is_done = await self._try(due)
        finally:
            if not is_done:
                self._wakes.failed(due, time.monotonic() + AGAIN_S)

    async def _try(self, due: Wake) -> bool:
        """Act on a wake-up; False: it is needed and could not be done."""
        row = self._world.table.get(due.key)
        where = (due.tenant, due.session)
        known = Known(row.record, row.seq) if row else await self._truth.read(*where)
        for _ in range(TRIES):
            if known is None:
                return True  # its first task may still wait in a lane; the sweeper refuses what stays unknown for a day
            if known.record.state in ENDED:
                await self.refuse_inbox(known.record)
                return True
            if not is_needed(due, known.record):
                self._wakes.keep(due, known.record)
                return True
            if await self.wake(known, lane_of(due, known.record), due.trace):
                return True
            known = await self._truth.read(*where)
            if known is not None:
                self._apply(known)
        return False

    async def wake(self, known: Known, lane: str, trace: Trace | None = None) -> bool:
        """Let a session wait for a worker in this lane, with a token; False: somebody else wrote, or it is not known.

        It was idle or waiting; or queued, and rises: its former token is left where it is.
        """
        with self._notes.waking(known.record, trace, lane):
            return await self._wake(known, lane)

    async def _wake(self, known: Known, lane: str) -> bool:
        woken = wake(known.record, lane=lane)
        try:
            seq = await self._truth.write(woken, known.seq)
        except (Conflict, OutcomeUnknown, Unavailable) as exc:
            log.debug("wake.lost", session_id=known.record.session, code=exc.code)
            return False
        self._apply(Known(woken, seq, int(time.time() * 1000)))
        log.info("session.woken", session_id=woken.session, lane=woken.lane)
        await send_token(self._queue, woken, seq)
        return True

    async def refuse_inbox(self, record: Record) -> None:
        """Give everything in an ended session's inbox that has no result the result `rejected`."""
        after = record.position
        for _ in range(ENTRIES_MAX):
            entry = await self._truth.next_entry(record.tenant, record.session, after)
            if entry is None:
                break
            if not can_be_found(entry.task):
                return  # the survey of the inboxes buries it, and comes here again
            now_ms = int(time.time() * 1000)
            refused = ends.result(
                entry.task, record, ends.SESSION_ENDED, now_ms=now_ms, came=entry.came
            )
            if await put_result(self._truth, refused):
                log.info("task.rejected", session_id=record.session, task_id=entry.task)
            after = entry.seq
        try:
            await self._truth.purge_inbox(record.tenant, record.session, after)
        except ServiceError as exc:
            log.debug("inbox.not_purged", session_id=record.session, code=exc.code)

    def _apply(self, known: Known) -> None:
        self._world.on_record(
            known.record, known.seq, now=time.monotonic(), stored_ms=known.stored_ms
        )
