"""Cancels tasks at any stage: what nobody runs gets its end here, what a worker runs is ended by that worker."""

from __future__ import annotations

import asyncio
import time

from pool_manager.core import ends
from pool_manager.core.cancels import AskOwner, EndSession, EndTask, Target, Tell, next_step
from pool_manager.core.quota import Ahead
from pool_manager.core.world import World
from pool_manager.loops.hands import Hands
from pool_manager.ports import Heard, Known, Replies, Truth, Workers
from shared import limits, logs, messages, subjects
from shared.errors import (
    Conflict,
    ErrorInfo,
    InvalidMessage,
    LimitExceeded,
    OutcomeUnknown,
    ServiceError,
    Unavailable,
)
from shared.ids import parse_name, parse_task_id
from shared.messages import CancelAnswer, CancelAsk, CancelOrder
from shared.record import Record

log = logs.get(__name__)

WITHIN_S = 10.0
"""For one cancel, an owner's commit left out; then the caller is told to ask again."""
PAUSE_S = 0.1
"""Between two looks at a session that changes hands."""
AHEAD_WINDOW_S = 600.0
BUSY = ErrorInfo(code="unavailable", message="too many requests at once: ask again")


class Canceller:
    """Serves `cancel.<tenant>.<session>.<task>`."""

    def __init__(self, world: World, truth: Truth, workers: Workers, replies: Replies) -> None:
        """Work on the truth; `world` only learns of it."""
        self.hands = Hands("cancel", count=32, pending_max=1024)
        self._world = world
        self._truth = truth
        self._workers = workers
        self._replies = replies
        self._number = 0
        self._ahead = Ahead(limits.CANCELS_AHEAD_MAX, AHEAD_WINDOW_S)

    async def heard(self, message: Heard) -> None:
        """Take a request."""
        self._number += 1
        if not self.hands.offer(str(self._number), lambda: self._serve(message)):
            await self._answer(message.reply, CancelAnswer(outcome="try_again", error=BUSY))

    async def _serve(self, message: Heard) -> None:
        try:
            target = read_target(message.subject, message.data)
            answer = await self._cancel(target)
        except (InvalidMessage, LimitExceeded) as exc:
            answer = CancelAnswer(outcome="unknown", error=exc.info())
        except ServiceError as exc:
            log.warning("cancel.failed", subject=message.subject, code=exc.code, error=str(exc))
            answer = CancelAnswer(outcome="try_again", error=exc.info())
        await self._answer(message.reply, answer)

    async def _answer(self, reply: str, answer: CancelAnswer) -> None:
        if reply:
            await self._replies.answer(reply, messages.encode(answer))

    def _check_ahead(self, tenant: str) -> None:
        """Bound what a tenant can have remembered of tasks that were never published.

        Raises:
            LimitExceeded: too many of late.
        """
        if not self._ahead.take(tenant, time.monotonic()):
            raise LimitExceeded(
                f"cancels of tasks that are not published: at most {limits.CANCELS_AHEAD_MAX} in "
                f"{AHEAD_WINDOW_S / 60:.0f} minutes (CANCELS_AHEAD_MAX)"
            )

    async def _cancel(self, target: Target) -> CancelAnswer:
        not_by: Record | None = None
        is_counted = False
        end_at = time.monotonic() + WITHIN_S
        while time.monotonic() < end_at:
            known = await self._truth.read(target.tenant, target.session)
            result = await self._truth.result(target.tenant, target.session, target.task)
            record = known.record if known else None
            now_ms = int(time.time() * 1000)
            step = next_step(target, record, result, not_by=not_by, now_ms=now_ms)
            match step:
                case Tell(outcome, told):
                    return CancelAnswer(outcome=outcome, status=told.status if told else None)
                case AskOwner(worker, epoch):
                    answer = await self._ask(target, worker, epoch)
                    if answer is not None and answer.outcome != "unknown":
                        return answer
                    if answer is None or target.is_first:
                        await asyncio.sleep(
                            PAUSE_S
                        )  # it is about to begin, to commit, or to be given up
                    not_by = record if answer is not None else None
                case EndSession(ended):
                    if known is None and not is_counted:
                        self._check_ahead(target.tenant)
                        is_counted = True
                    if await self._end_session(ended, known, now_ms):
                        return CancelAnswer(outcome="cancelled", status="cancelled")
                case EndTask(end):
                    entry = await self._truth.entry(target.tenant, target.session, target.task)
                    if entry is None and not is_counted:
                        self._check_ahead(target.tenant)
                        is_counted = True
                    came = entry.came if entry else ends.NOT_KNOWN
                    await self._end_task(target, record, end, came)
        return CancelAnswer(
            outcome="try_again",
            error=Unavailable("the session changes hands all the time: ask again").info(),
        )

    async def _ask(self, target: Target, worker: str, epoch: int) -> CancelAnswer | None:
        """Ask the owner; None: it does not listen (yet, or any more), or hangs."""
        order = CancelOrder(session=target.session, task=target.task, epoch=epoch)
        try:
            return await self._workers.cancel(worker, order)
        except (Unavailable, OutcomeUnknown):
            return None

    async def _end_session(self, ended: Record, known: Known | None, now_ms: int) -> bool:
        result = ends.result(ended.session, ended, ends.CANCELLED, now_ms=now_ms)
        try:
            seq = await self._truth.end(ended, known.seq if known else 0, result)
        except (Conflict, ServiceError) as exc:
            log.debug("cancel.again", session_id=ended.session, code=exc.code)
            return False  # whether it was written shows in the next reading
        self._world.on_record(ended, seq, now=time.monotonic(), stored_ms=now_ms)
        log.info("session.cancelled", session_id=ended.session)
        return True

    async def _end_task(
        self, target: Target, record: Record | None, end: ends.End, came: ends.Came
    ) -> None:
        """Write the task's result; whether it holds shows in the next reading."""
        now_ms = int(time.time() * 1000)
        who = (target.tenant, target.session, target.task)
        result = ends.result_of(who, record, end, now_ms=now_ms, came=came)
        try:
            await self._truth.put_result(result)
        except ServiceError as exc:
            log.debug("cancel.again", task_id=target.task, code=exc.code)


def read_target(subject: str, body: bytes) -> Target:
    """Read a request.

    Raises:
        InvalidMessage: names what is wrong.
    """
    tenant, session, task = subjects.parse_task(subject)
    ask = messages.decode(body, CancelAsk) if body else CancelAsk()
    parse_name(tenant, "tenant")
    parse_task_id(session)
    parse_task_id(task)
    if ask.pool is not None:
        parse_name(ask.pool, "pool")
    return Target(tenant, session, task, ask.pool)
