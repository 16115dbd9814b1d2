"""Ends plain messages past their deadline, and removes what was kept for its time."""

from __future__ import annotations

import asyncio
import time

from pool_manager.core import ends
from pool_manager.core.backlog import Backlog, Waiting, deadline_ms, task_of
from pool_manager.core.clock import ServerClock
from pool_manager.core.world import World
from pool_manager.ports import LaneMessage, Queue, Truth
from shared import limits, logs
from shared.classes import CLIENT_CLASSES
from shared.errors import Conflict, ServiceError
from shared.ids import SHARDS
from shared.record import ENDED, Origin
from shared.transitions import ended_unborn

log = logs.get(__name__)

EVERY_S = 2.0
READ_AT_ONCE = 250
"""Messages of one lane that are read in one round."""
YOUNG_MS = 1000
"""Messages that are on their way to a worker are left unread."""
OLD_EVERY_S = 600.0
REMOVE_AT_ONCE = 500
Lane = tuple[int, str, str]
"""(shard, pool, class)"""


class Expirer:
    """Works on each shard by the pool-manager whose turn it is."""

    def __init__(
        self, world: World, truth: Truth, queue: Queue, clock: ServerClock | None = None
    ) -> None:
        """Start with nothing read; `clock` is the servers'."""
        self._clock = clock or ServerClock()
        self._world = world
        self._truth = truth
        self._queue = queue
        self._backlogs: dict[Lane, Backlog] = {}
        self._cursors = [0] * SHARDS
        self.kept_s = float(limits.ENDED_KEPT_S)

    async def run(self) -> None:
        """Look into the lanes every other second, until cancelled."""
        old_every_s = min(OLD_EVERY_S, self.kept_s / 10)
        clean_at = [time.monotonic() + old_every_s] * SHARDS
        while True:
            await asyncio.sleep(EVERY_S)
            now = time.monotonic()
            for shard in range(SHARDS):
                if not self._world.peers.is_first(f"expire/{shard}", now):
                    continue
                try:
                    await self._look_into(shard)
                    if now >= clean_at[shard] and not await self.remove_old(shard):
                        clean_at[shard] = now + old_every_s
                except ServiceError as exc:
                    log.debug("expire.failed", shard=shard, code=exc.code, error=str(exc))

    def _now_ms(self) -> int:
        return self._clock.at(int(time.time() * 1000))

    async def _look_into(self, shard: int) -> None:
        counts = await self._queue.counts(shard)
        for lane in [lane for lane in self._backlogs if lane[0] == shard]:
            if not counts.get(lane[1:]):
                del self._backlogs[lane]
        for pool, klass in counts:
            if klass not in CLIENT_CLASSES:
                continue  # recovery holds tokens only
            try:
                await self._look_into_lane((shard, pool, klass))
            except ServiceError as exc:  # the other lanes do not wait for this one
                log.debug("expire.failed", shard=shard, pool=pool, klass=klass, code=exc.code)

    async def _look_into_lane(self, lane: Lane) -> None:
        oldest = await self._queue.next_message(*lane, after_seq=0)
        now_ms = self._now_ms()
        if oldest is None or oldest.accepted_ms > now_ms - YOUNG_MS:
            return
        backlog = self._backlogs.setdefault(lane, Backlog())
        backlog.begins_at(oldest.seq)
        for _ in range(READ_AT_ONCE):
            if backlog.is_full:
                break
            message = await self._queue.next_message(*lane, after_seq=backlog.cursor)
            if message is None or message.accepted_ms > now_ms - YOUNG_MS:
                break
            backlog.read(message.seq, _waiting(message))
        for waiting in backlog.overdue(now_ms):
            try:
                await self._expire(lane, waiting, now_ms)
            except (
                ServiceError
            ) as exc:  # its home has no leader, say: those with another home do not wait for it
                log.debug("expire.failed", session_id=waiting.origin.session, code=exc.code)
            else:
                backlog.done(waiting.seq)

    async def _expire(self, lane: Lane, waiting: Waiting, now_ms: int) -> None:
        """Create the session as `expired`; whoever pulls the message after that drops it."""
        record = ended_unborn(waiting.origin, state="expired", reason="deadline", now_ms=now_ms)
        result = ends.result(record.session, record, ends.EXPIRED, now_ms=now_ms)
        try:
            seq = await self._truth.end(record, 0, result)
        except Conflict:
            # A worker was faster; or its write was under way, and is lost by now: then the message is all that there is.
            where = (record.tenant, record.session)
            known = await self._truth.read(*where)
            if known is None and await self._truth.result(*where, record.session) is None:
                raise
        else:
            self._world.on_record(record, seq, now=time.monotonic(), stored_ms=now_ms)
            log.info("session.expired", session_id=record.session)
        await self._queue.remove(lane[0], waiting.seq)

    async def remove_old(self, shard: int) -> bool:
        """Remove results and ended records that were kept for their time; return whether more are left.

        A shard's records lie in order of time.
        """
        limit_ms = self._now_ms() - int(self.kept_s * 1000)
        await self._truth.purge_results(shard, limit_ms)
        for _ in range(REMOVE_AT_ONCE):
            known = await self._truth.next_record(shard, self._cursors[shard])
            if known is None or known.stored_ms >= limit_ms:
                self._cursors[shard] = 0
                return False
            self._cursors[shard] = known.seq
            if known.record.state in ENDED:
                await self._truth.remove_record(known.record)
        return True


def _waiting(message: LaneMessage) -> Waiting | None:
    if message.token is not None and not message.body:
        return None
    origin = Origin(
        session=task_of(message.message_id, message.shard, message.seq),
        tenant=message.tenant,
        pool=message.pool,
        lane=message.klass,
        accepted_ms=message.accepted_ms,
        replay_of=message.replay_of,
        traceparent="" if message.trace is None else message.trace.traceparent,
        tracestate="" if message.trace is None else message.trace.state,
    )
    return Waiting(message.seq, origin, deadline_ms(message.body, message.accepted_ms))
