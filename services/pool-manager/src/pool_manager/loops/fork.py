"""Makes a session that begins with a snapshot of another one: by its id, so that asking again makes no second one.

    record `forking` -> a checkpointer pins the snapshot and finds it retained -> `idle`, with the fork's result

Whoever is asked for it again goes on from where it stands; one that nobody finished is ended, and its pin goes with it.
"""

from __future__ import annotations

import time

from pool_manager.core import ends
from pool_manager.core.world import World
from pool_manager.ports import Known, Truth
from pool_manager.ports.workspaces import Heads, Keepers
from shared import forks, logs, transitions
from shared.errors import (
    Conflict,
    InvalidMessage,
    LimitExceeded,
    NotFound,
    OutcomeUnknown,
    Rejected,
    ServiceError,
)
from shared.ids import is_unique, parse_task_id
from shared.kept import find, row
from shared.messages import TaskResult, Timing
from shared.record import ENDED, Origin, Record
from shared.snapshots import ForkAnswer, ForkAsk, PinAsk
from shared.workspace import Base, Retained

log = logs.get(__name__)

TRIES = 4
OLD_S = 60.0
"""A `forking` of this age was left by a manager that died, and its client does not ask again."""
SWEEP_S = 10.0


class Forker:
    """Makes forks, and ends what was left of some."""

    def __init__(
        self, world: World, truth: Truth, heads: Heads, keepers: Keepers, *, sessions_max: int
    ) -> None:
        """Let a tenant have `sessions_max` sessions that have not ended."""
        self._world = world
        self._truth = truth
        self._heads = heads
        self._keepers = keepers
        self._sessions_max = sessions_max

    async def fork(self, tenant: str, ask: ForkAsk) -> ForkAnswer:
        """Make a fork, or find it made.

        Raises:
            InvalidMessage: the new session's id is none that one client alone can have made.
            NotFound: no such session, or it has no such snapshot (any more).
            Rejected: the session has ended, or the id is that of another session.
            LimitExceeded: the tenant has too many sessions, or the session too many forks.
            OutcomeUnknown: ask again under the same id.
        """
        parse_task_id(ask.session)
        if not is_unique(ask.fork):
            raise InvalidMessage(f"fork: a UUID or ULID expected, got {ask.fork!r}")
        problem: ServiceError = OutcomeUnknown("nothing was tried")
        for _ in range(TRIES):
            known = await self._truth.read(tenant, ask.fork)
            try:
                if known is None:
                    known = await self._begin(tenant, ask)
                return await self._go_on(known, ask)
            except (Conflict, OutcomeUnknown) as exc:  # it changed, or may have changed: look again
                log.info("fork.unsure", session_id=ask.fork, error=str(exc))
                problem = exc
        raise OutcomeUnknown(f"fork {ask.fork}: {problem}") from problem

    async def run_once(self, now: float) -> None:
        """End the forks that nobody finished, those whose turn it is here."""
        for entry in self._world.table:
            record = entry.record
            is_old = record.state == "forking" and now - entry.since > OLD_S
            if is_old and self._world.peers.is_first(entry.key, now):
                try:
                    await self._fail(Known(record, entry.seq), "it was not finished in time")
                except ServiceError as exc:  # it was finished meanwhile, or the next time
                    log.info("fork.not_ended", session_id=record.session, error=str(exc))

    async def _begin(self, tenant: str, ask: ForkAsk) -> Known:
        parent = await self._truth.read(tenant, ask.session)
        if parent is None:
            raise NotFound(f"session {ask.session} is not known")
        if parent.record.state in ENDED:
            raise Rejected(f"session {ask.session} has ended ({parent.record.state})")
        if self._world.table.open_of[tenant] >= self._sessions_max:
            raise LimitExceeded(
                f"tenant {tenant}: {self._sessions_max} sessions have not ended (TENANT_SESSIONS_MAX)"
            )
        head = await self._heads.head(tenant, ask.session)
        meant = find(parent.record, head, ask.snapshot)
        origin = Origin(
            session=ask.fork,
            tenant=tenant,
            pool=parent.record.pool,
            lane=parent.record.client_lane,
            accepted_ms=_now_ms(),
        )
        record = forks.fork(origin, base=Base(session=ask.session, snapshot=meant.snapshot))
        return Known(record, await self._truth.write(record, 0))

    async def _go_on(self, known: Known, ask: ForkAsk) -> ForkAnswer:
        record = known.record
        if record.base is None or record.base.session != ask.session:
            raise Rejected(
                f"fork: session {ask.fork} is there already, and no fork of {ask.session}"
            )
        if record.state in ENDED and record.boundary is None:
            raise Rejected(f"fork: session {ask.fork} has ended ({record.end_reason})")
        if record.state == "forking":
            record = await self._pin(known)
        assert record.base is not None, "looked at above"
        begun = Retained(snapshot=record.base.snapshot, epoch=0)
        return ForkAnswer(
            session=record.session, pool=record.pool, snapshot=row(begun, record, None)
        )

    async def _pin(self, known: Known) -> Record:
        record = known.record
        assert record.base is not None, "a fork has a base"
        pin = PinAsk(
            tenant=record.tenant,
            session=record.base.session,
            fork=record.session,
            fork_pool=record.pool,
            snapshot=record.base.snapshot,
        )
        try:
            await self._keepers.keep("pin", pin)
        except (NotFound, LimitExceeded) as exc:
            await self._fail(known, str(exc))
            raise
        made = forks.forked(record)
        await self._truth.end(made, known.seq, _result(made))
        return made

    async def _fail(self, known: Known, why: str) -> None:
        ended = transitions.end(
            known.record, state="rejected", reason="no_snapshot", now_ms=_now_ms()
        )
        end = ends.End("rejected", "no_snapshot", words=why)
        await self._truth.end(
            ended, known.seq, ends.result(ended.session, ended, end, now_ms=_now_ms())
        )
        log.warning("fork.ended", session_id=ended.session, reason=why)


def _result(record: Record) -> TaskResult:
    """Return the result under the fork's own id: no task of that id runs, and who asks for it is told."""
    return TaskResult(
        task=record.session,
        session=record.session,
        tenant=record.tenant,
        pool=record.pool,
        kind="fork",
        status="ok",
        timing=Timing(accepted_ms=record.accepted_ms, finished_ms=_now_ms()),
    )


def _now_ms() -> int:
    return int(time.time() * 1000)
