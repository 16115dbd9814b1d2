"""Gives up dead owners: the record's epoch rises, and a token asks for another worker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial

import msgspec

from pool_manager.core import ends
from pool_manager.core.table import Row, key_of
from pool_manager.core.tokens import message_id
from pool_manager.core.trail import TaskInHand
from pool_manager.core.world import World
from pool_manager.loops.hands import Hands, wait_for
from pool_manager.loops.note import Notes
from pool_manager.loops.rescue import Rescuer
from pool_manager.ports import Known, Queue, Truth
from pool_manager.ports.letters import Letters
from shared import logs
from shared.errors import Conflict, OutcomeUnknown, ServiceError, Unavailable
from shared.ids import can_be_found, home
from shared.letters import DeadLetter
from shared.messages import TaskResult
from shared.record import OWNED, Death, Record
from shared.traces import Context
from shared.transitions import revoke

log = logs.get(__name__)

TICK_S = 0.1
FOLLOW_S = 0.1
"""How long the next pool-manager waits for the first one's revocation."""
RETRY_S = 0.3
FORGET_EVERY_S = 10.0
ADOPT_S = 1.0
"""A rescue that is not over after so long is seen to by all pool-managers: the one that began it may be dead."""


class Recoverer:
    """Judges owners and revokes those that are given up."""

    def __init__(
        self,
        world: World,
        stores: tuple[Truth, Queue, Letters],
        rescuer: Rescuer,
        notes: Notes | None = None,
    ) -> None:
        """Work on what `world` knows; what kills its workers ends among the dead letters."""
        self.rescuer = rescuer
        self._notes = notes or Notes()
        self.wanted = asyncio.Event()
        """Set when an owner may have to be given up: judge at once."""
        self.hands = Hands("recover", count=24, pending_max=4096)
        self._world = world
        self._truth, self._queue, self._letters = stores
        self.on_revoked: Callable[[Record, Death], None] = lambda _record, _death: None
        """Told of each owner that this pool-manager gave up."""
        self._condemned: dict[str, tuple[int, float]] = {}
        """Session -> (sequence of the record, when to act)."""

    async def run(self) -> None:
        """Judge every tenth of a second, until cancelled."""
        forget_at = time.monotonic()
        while True:
            await wait_for(self.wanted, TICK_S)
            now = time.monotonic()
            since = self._world.hearing.since
            hears = self._world.hears(now)
            if self._world.hearing.since != since:
                log.warning("manager.was_deaf")
            if hears:
                self._judge(now)
            if now >= forget_at:
                forget_at = now + FORGET_EVERY_S
                self._world.forget(now)

    def _judge(self, now: float) -> None:
        owned = self._world.table.owned
        for key in self._condemned.keys() - owned.keys():
            del self._condemned[key]
        for key, row in list(owned.items()):
            death = self._world.detector.judge(row, now)
            if death is None:
                self._condemned.pop(key, None)
                if row.record.state == "rescuing" and now - row.since > ADOPT_S:
                    self._see_to(row.key, row.record)
                continue
            seq, act_at = self._condemned.get(key, (0, 0.0))
            if seq != row.seq:
                act_at = now + self._world.peers.rank(key, now) * FOLLOW_S
                self._condemned[key] = (row.seq, act_at)
            if now >= act_at:
                self._offer(row, death)

    def _offer(self, row: Row, death: Death) -> None:
        self.hands.offer(row.key, lambda: self._revoke(row, death))

    async def _revoke(self, row: Row, death: Death) -> None:
        self._condemned[row.key] = (row.seq, time.monotonic() + RETRY_S)
        record, start_ns = row.record, time.time_ns()
        now_ms = start_ns // 1_000_000
        death, hit = await self._name_task(record, death)
        death = msgspec.structs.replace(death, may_write=self._may_write(record))
        rescue = await self.rescuer.plan(record, death, hit)
        revoked = revoke(record, death=death, now_ms=now_ms, rescue=rescue)
        buried: int | None = None
        try:
            if revoked.state == "poison":
                if hit is None:
                    return  # which task it was is read again at the next judgement
                result = ends.result(hit.task, revoked, ends.POISON, now_ms=now_ms)
                buried = await self._bury(revoked, hit.task, result)
                seq = await self._truth.end(revoked, row.seq, result)
            else:
                seq = await self._truth.write(revoked, row.seq)
        except (Conflict, OutcomeUnknown, Unavailable) as exc:
            known = await self._truth.read(record.tenant, record.session)
            if known is not None:
                self._apply(known)
            lives = known is not None and known.record.state in OWNED
            if buried is not None and isinstance(exc, Conflict) and lives:
                await self._letters.remove(buried)  # it lives
            if isinstance(exc, Conflict) or known is None or known.record != revoked:
                return  # somebody else moved first, or nothing was written: the next judgement decides
            seq = known.seq
        self._apply(Known(revoked, seq, now_ms))
        self.on_revoked(record, death)
        log.warning(
            "session.revoked",
            session_id=record.session,
            epoch=revoked.epoch,
            worker=record.owner,
            cause=death.cause,
            silent_ms=death.silent_ms,
            deaths=revoked.deaths,
            state=revoked.state,
        )
        with self._notes.recovering(record, hit, death, start_ns) as trace:
            if revoked.state == "queued":
                await send_token(self._queue, revoked, seq)
            elif revoked.state == "rescuing":
                self._see_to(row.key, revoked, trace)

    def _see_to(self, key: str, rescuing: Record, trace: Context | None = None) -> None:
        self.rescuer.hands.offer(key, partial(self._follow, rescuing, trace))

    async def _follow(self, rescuing: Record, trace: Context | None) -> None:
        """See a rescue through, then let a worker have the session; one that failed is given up at once."""
        why = await self.rescuer.see_through(rescuing, trace)
        known = await self._truth.read(rescuing.tenant, rescuing.session)
        if known is None:
            return
        self._apply(known)
        record = known.record
        if record.epoch != rescuing.epoch:
            return  # somebody else has given it up, or claimed it already
        if record.state == "queued":
            with self._notes.handing_on(record, trace):
                await send_token(self._queue, record, known.seq)
        elif record.state == "rescuing" and (
            row := self._world.table.get(key_of(record.tenant, record.session))
        ):
            cause = why if why == "checkpointer_lost" else f"rescue_{why or 'lost'}"
            await self._revoke(row, Death(cause=cause, process_died=False, in_task=False))

    async def _bury(self, poison: Record, task: str, result: TaskResult) -> int | None:
        """Keep the task that kills its workers as a dead letter, before its result says so."""
        if task == poison.session:
            body, origin, accepted_ms, replay_of = await self._truth.payload(poison), "", 0, ""
        else:
            entry = await self._truth.next_entry(poison.tenant, poison.session, poison.position)
            while entry is not None and entry.task != task:
                entry = await self._truth.next_entry(poison.tenant, poison.session, entry.seq)
            if entry is None:
                return None
            body, origin = entry.body, f"I{home(poison.session)}/{entry.seq}"
            accepted_ms, replay_of = entry.accepted_ms, entry.replay_of
        assert result.error is not None, "poison says why"
        letter = DeadLetter(
            tenant=poison.tenant,
            session=poison.session,
            task=task,
            pool=poison.pool,
            klass=poison.client_lane,
            status="poison",
            reason="deaths",
            error=result.error,
            attempts=poison.attempt,
            origin=origin,
            accepted_ms=accepted_ms or poison.accepted_ms,
            replay_of=replay_of or (poison.replay_of if task == poison.session else ""),
        )
        return await self._letters.bury(letter, body or b"")

    def _apply(self, known: Known) -> None:
        self._world.on_record(
            known.record, known.seq, now=time.monotonic(), stored_ms=known.stored_ms
        )

    def _may_write(self, record: Record) -> bool:
        """Return whether code of the owner may go on for a while where the next one works, too: nobody saw its end."""
        slots = self._world.pools.get(record.pool)
        if slots is None or not slots.spec.on_volume:
            return False
        told = self._world.detector.told_of(record.owner)
        return told is None or not told.stopped

    async def _name_task(self, record: Record, death: Death) -> tuple[Death, TaskInHand | None]:
        """Return the death with the task that it hit, and that task; None: there was none, or it is not known."""
        try:
            hit = await self._task_in_hand(record)
        except ServiceError:
            return death, None
        if hit is not None:
            # What came in when its owner had ended already is no task that it died in.
            begun = not self._world.detector.had_not_begun(record, hit.task)
            died = death.process_died and begun
            return msgspec.structs.replace(death, task=hit.task, process_died=died), hit
        # Read after its end, if that is known: then nobody can have begun anything since.
        ended = death.process_died or self._world.detector.told_of(record.owner) is not None
        return msgspec.structs.replace(death, in_task=not ended), None

    async def _task_in_hand(self, record: Record) -> TaskInHand | None:
        """Return the task that the owner had in hand, or may have had; None: there was nothing to do."""
        if not record.first_done:
            return TaskInHand.first(record)
        after = record.position
        while (
            entry := await self._truth.next_entry(record.tenant, record.session, after)
        ) is not None:
            after = entry.seq
            if not can_be_found(entry.task):
                continue  # it gets no result, so it was not run
            if await self._truth.result(record.tenant, record.session, entry.task) is None:
                return TaskInHand(task=entry.task, accepted_ms=entry.accepted_ms, trace=entry.trace)
        return None


async def send_token(queue: Queue, record: Record, seq: int) -> None:
    """Put the record's token into its lane; one that fails is sent again by the sweeper."""
    try:
        await queue.send_token(record, message_id(record.session, seq))
    except ServiceError as exc:
        log.warning("token.failed", session_id=record.session, code=exc.code, error=str(exc))
