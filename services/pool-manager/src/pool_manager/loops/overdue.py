"""Ends what waits for too long where no worker looks: in inboxes, and in records that want a worker.

Times are the servers': a deadline counts from a stream's timestamp.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial

import msgspec

from pool_manager.core import ends
from pool_manager.core.backlog import deadline_ms
from pool_manager.core.clock import ServerClock
from pool_manager.core.deadlines import Deadlines, Due, due_of
from pool_manager.core.table import Row, key_of
from pool_manager.core.world import World
from pool_manager.loops.entries import end_entry
from pool_manager.loops.hands import Hands
from pool_manager.ports import Entry, Known, Truth
from pool_manager.ports.letters import Letters
from shared import logs
from shared.errors import ErrorInfo, InvalidMessage, ServiceError
from shared.ids import can_be_found, home, parse_task_id
from shared.letters import NO_POOL, DeadLetter
from shared.record import ENDED, OWNED
from shared.transitions import end

log = logs.get(__name__)

EVERY_S = 1.0
READ_AT_ONCE = 64
"""Entries of one inbox that are read at one look."""
SETTLED_S = 2.0
"""A session that wants a worker for less long is about to get one."""
FIRST_TASKS_MAX = 10_000
"""Sessions whose first task's deadline is remembered while they wait for a worker."""


class Overdue:
    """Knows the deadlines of what waits; the sweeper shows it the inboxes."""

    def __init__(
        self,
        world: World,
        truth: Truth,
        letters: Letters,
        *,
        clock: ServerClock,
        unknown_after_s: float,
    ) -> None:
        """Work on what `world` knows by the servers' `clock`.

        Sessions without a record are refused after `unknown_after_s`.
        """
        self.hands = Hands("overdue", count=8, pending_max=4096)
        self.clock = clock
        self._world = world
        self._truth = truth
        self._letters = letters
        self._unknown_after_ms = int(unknown_after_s * 1000)
        self._deadlines = Deadlines()
        self._firsts: dict[str, int] = {}
        """Session that waits with its first task -> the task's deadline."""

    def now_ms(self) -> int:
        """Return the servers' time, milliseconds since 1970."""
        return self.clock.at(int(time.time() * 1000))

    async def run(self) -> None:
        """Look each second at what is known, until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            now = time.monotonic()
            now_ms = self.now_ms()
            for key, dues in self._deadlines.overdue(now_ms).items():
                if self._world.peers.is_first(f"inbox/{home(dues[0].session)}", now):
                    self.hands.offer(key, partial(self._end_entries, key, dues))
            self._look_at_firsts(now, now_ms)

    # --- inboxes ---------------------------------------------------------------------------------------------------

    def emptied(self, shard: int, present: set[str]) -> None:
        """Forget the inboxes of a shard that hold nothing any more."""
        mine = {key for key in self._deadlines.keys() if home(key.split(".", 1)[1]) == shard}  # noqa: SIM118 - no dict
        self._deadlines.keep(present, mine)

    def wants(self, key: str, entries: int, position: int) -> bool:
        """Return whether an inbox has something whose deadline is not known."""
        return not self._deadlines.is_read(key, entries, position)

    async def look(self, tenant: str, session: str, known: Known | None, entries: int) -> None:
        """Read what waits in an inbox and was not read before.

        Args:
            tenant: whose.
            session: the session.
            known: its record; None: it has none (yet).
            entries: how many entries its inbox has.
        """
        key = key_of(tenant, session)
        position = known.record.position if known else 0
        after = self._deadlines.passed(key, position)
        for _ in range(READ_AT_ONCE):
            if not self._deadlines.has_room(key):
                return
            entry = await self._truth.next_entry(tenant, session, after)
            if entry is None:
                self._deadlines.was_read(key, entries, position)
                return
            after = entry.seq
            if not can_be_found(entry.task):
                continue  # see `refuse_unnamed`
            if known is None and (problem := _problem(session)) is not None:
                await self._refuse_invalid(entry, problem)
            else:
                self._deadlines.read(key, self._due(entry, known))

    def _due(self, entry: Entry, known: Known | None) -> Due:
        due = due_of(
            (entry.tenant, entry.session, entry.task),
            (entry.seq, entry.accepted_ms),
            entry.body,
            entry.replay_of,
        )
        if known is not None:
            return due
        return msgspec.structs.replace(due, unknown_ms=entry.accepted_ms + self._unknown_after_ms)

    async def _end_entries(self, key: str, dues: list[Due]) -> None:
        """Give overdue entries their end, unless a worker has them in hand."""
        tenant, session = dues[0].tenant, dues[0].session
        known = await self._truth.read(tenant, session)
        if known is not None and known.record.state in ENDED:
            self._deadlines.forget(key)  # all of its inbox is refused
            return
        head: int | None = None
        if known is not None:
            self._deadlines.passed(key, known.record.position)
            if known.record.state in OWNED and known.record.first_done:
                # Its owner runs this one, or is storing its result: it ends it itself, and what finished has finished.
                head = await self._in_hand(key, known)
        for due in dues:
            is_done = known is not None and due.seq <= known.record.position
            if is_done or (head is not None and due.seq <= head):
                continue
            if known is not None and due.deadline_ms > self.now_ms():
                # Its session was not known when it was read; now it may wait as long as it says.
                self._deadlines.read(key, msgspec.structs.replace(due, unknown_ms=None))
                continue
            await self._end_entry(due, known)
            self._deadlines.done(key, due.seq)

    async def _in_hand(self, key: str, known: Known) -> int | None:
        """Return the entry that an owner has in hand: the oldest one without a result. It passes those with one."""
        record = known.record
        for due in self._deadlines.of(key):
            if await self._truth.result(record.tenant, record.session, due.task) is None:
                return due.seq
            self._deadlines.done(key, due.seq)
        return None

    async def _end_entry(self, due: Due, known: Known | None) -> None:
        """Write the result, then remove the entry: its session need not be woken for it."""
        now_ms = self.now_ms()
        unknown_late = known is None and due.unknown_ms is not None and due.unknown_ms <= now_ms
        result = ends.result_of(
            (due.tenant, due.session, due.task),
            known.record if known else None,
            ends.UNKNOWN_SESSION if unknown_late else ends.EXPIRED,
            now_ms=now_ms,
            came=due.came,
        )
        if await end_entry(self._truth, due.seq, result):
            log.info("task.ended", session_id=due.session, task_id=due.task, status=result.status)

    async def refuse_unnamed(self, shard: int, tenant: str) -> None:
        """Make dead letters of a tenant's entries whose session or task could not be found again by its name."""
        after = 0
        while (entry := await self._truth.next_of_tenant(shard, tenant, after)) is not None:
            after = entry.seq
            if can_be_found(entry.session) and can_be_found(entry.task):
                continue
            wrong = entry.task if can_be_found(entry.session) else entry.session
            await self._bury(entry, f"I{shard}", _problem(wrong) or "no id")
            await self._truth.remove_entry(shard, entry.seq)
            log.info("task.rejected", session_id=entry.session[:80], task_id=entry.task[:80])

    async def _refuse_invalid(self, entry: Entry, problem: str) -> None:
        """A session of such an id can never be: a dead letter, a result, and the entry goes."""
        now_ms = self.now_ms()
        who = (entry.tenant, entry.session, entry.task)
        error = await self._bury(entry, f"I{home(entry.session)}", problem)
        result = ends.result_without_record(who, ends.INVALID, now_ms=now_ms, came=entry.came)
        await end_entry(self._truth, entry.seq, msgspec.structs.replace(result, error=error))
        log.info("task.rejected", session_id=entry.session[:80], task_id=entry.task[:80])

    async def _bury(self, entry: Entry, stream: str, problem: str) -> ErrorInfo:
        """Keep an entry as a dead letter; return what is wrong with it."""
        error = InvalidMessage(f"subject: {problem}").info()
        letter = DeadLetter(
            tenant=entry.tenant,
            session=entry.session,
            task=entry.task,
            pool=NO_POOL,
            status="rejected",
            reason="invalid",
            error=error,
            origin=f"{stream}/{entry.seq}",
            accepted_ms=entry.accepted_ms,
            replay_of=entry.replay_of,
        )
        await self._letters.bury(letter, entry.body)
        return error

    # --- first tasks whose session wants a worker again --------------------------------------------------------------

    def _look_at_firsts(self, now: float, now_ms: int) -> None:
        table = self._world.table
        waiting = {
            row.key: row
            for rows in (table.queued, table.waiting)
            for row in rows.values()
            if not row.record.first_done
        }
        for key in self._firsts.keys() - waiting.keys():
            del self._firsts[key]
        for key, row in waiting.items():
            if now - row.since < SETTLED_S or not self._world.peers.is_first(key, now):
                continue
            deadline = self._firsts.get(key)
            if deadline is None and len(self._firsts) < FIRST_TASKS_MAX:
                self.hands.offer(f"read:{key}", partial(self._read_first, row))
            elif deadline is not None and deadline <= now_ms:
                self.hands.offer(key, partial(self._end_first, row))

    async def _read_first(self, row: Row) -> None:
        body = await self._truth.payload(row.record)
        self._firsts[row.key] = deadline_ms(body or b"", row.record.accepted_ms)

    async def _end_first(self, row: Row) -> None:
        """End a session whose first task is too old, as it waits for a worker again."""
        now_ms = self.now_ms()
        ended = end(row.record, state="expired", reason="deadline", now_ms=now_ms)
        result = ends.result(ended.session, ended, ends.EXPIRED, now_ms=now_ms)
        try:
            seq = await self._truth.end(ended, row.seq, result)
        except ServiceError as exc:
            log.debug("overdue.lost", session_id=ended.session, code=exc.code)
            return  # claimed meanwhile, or unsure: the next look decides
        self._world.on_record(ended, seq, now=time.monotonic(), stored_ms=now_ms)
        log.info("session.expired", session_id=ended.session)


def _problem(session: str) -> str | None:
    try:
        parse_task_id(session)
    except InvalidMessage as exc:
        return str(exc)
    return None
