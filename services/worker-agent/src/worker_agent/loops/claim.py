"""Rule 1 of ownership, carried out: from a queue message to a session that this worker owns, or to none."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Literal

import msgspec

from shared import logs, transitions
from shared.errors import (
    Conflict,
    ErrorInfo,
    InvalidMessage,
    LimitExceeded,
    OutcomeUnknown,
    ServiceError,
    Unavailable,
)
from shared.ids import parse_task_id
from shared.limits import DEADLINE_S_MAX
from shared.record import EndState, Hold, Record, is_mine
from shared.subjects import parse_queue, queue_stream
from worker_agent.core import claims
from worker_agent.core.results import Attempt, Place, Verdict, letter_of, result_without_run
from worker_agent.core.work import Arrival, Taken, path_of
from worker_agent.loops.down_shards import DownShards
from worker_agent.ports import Delivery, Held, Truth

log = logs.get(__name__)

Outcome = Held | Literal["drop", "give_back"]


class Claimer:
    """Claims what a delivery offers."""

    def __init__(self, truth: Truth, place: Place, *, full: Sequence[str] = ()) -> None:
        """Claim for the worker at `place`.

        Args:
            truth: records and results.
            place: the worker.
            full: tenants that get no new session, as known when the pod was made.
        """
        self._truth = truth
        self._place = place
        self.full = claims.Full(full, time.monotonic())
        self._down = DownShards(claims.SHARD_DOWN_S)

    async def claim(self, delivery: Delivery, waiting_since_ms: float | None) -> Held | None:
        """Return the session won, or None: then the message was dropped or given back.

        Args:
            delivery: what offers it.
            waiting_since_ms: as `path_of` takes it.
        """
        headers = delivery.headers
        request = claims.read_request(
            delivery.subject, headers, stream_seq=delivery.stream_seq, time_ms=delivery.time_ms
        )
        token = headers.token if claims.is_token(headers, delivery.data) else None
        session = request.task if token is None else token
        outcome: Outcome = "give_back"
        if not self._down.is_down(session):
            try:
                if token is not None:
                    outcome = await self._claim_queued(delivery.subject, token)
                elif request.problem is not None:
                    outcome = await self._reject(delivery, request, request.problem)
                else:
                    outcome = await self._create(delivery, request)
            except (
                Unavailable,
                OutcomeUnknown,
                LimitExceeded,
            ):  # a full store, too, is a shard that is down
                self._down.mark(session)
        claimed_ns = time.time_ns()
        await self._settle(delivery, session, outcome)
        if not isinstance(outcome, Held):
            return None
        outcome.taken = Taken(
            path=path_of(delivery.time_ms, waiting_since_ms),
            delivered_ms=delivery.delivered_ms,
            claimed_ms=claimed_ns / 1_000_000,
            arrival=Arrival(
                subject=delivery.subject,
                message_id=headers.message_id or "",
                body_bytes=len(delivery.data),
                token=headers.trace if token is not None else None,
                asked_ns=int(delivery.asked_ms * 1_000_000),
                claimed_ns=claimed_ns,
                settled_ns=time.time_ns(),
            ),
        )
        return outcome

    async def _settle(self, delivery: Delivery, session: str, outcome: Outcome) -> None:
        """Ack what was won or is not wanted, give back what another worker should try.

        A lost ack or nak costs a redelivery after `ack_wait`: acks are no fence, the record is.
        """
        try:
            if outcome == "give_back":
                log.info("claim.given_back", session_id=session)
                await delivery.give_back(claims.SHARD_DOWN_S * (1 + random.random() / 2))
            else:
                await delivery.ack()
        except ServiceError as exc:
            log.info("claim.settle_failed", session_id=session, error=exc.code)

    async def _create(self, delivery: Delivery, request: claims.Request) -> Outcome:
        """Create record and payload of a plain message, before anything of its body is read."""
        now_ms = _now_ms()
        if now_ms - request.origin.accepted_ms > DEADLINE_S_MAX * 1000:
            return await self._end_unborn(request, Verdict("expired", "deadline", TOO_OLD))
        if (why := self.full.why(request.origin.tenant, time.monotonic())) is not None:
            return await self._end_unborn(request, Verdict("rejected", "limit", why))
        record = transitions.create(
            request.origin, owner=self._place.worker, node=self._place.node, now_ms=now_ms
        )
        try:
            seq = await self._truth.create(record, delivery.data)
        except (Conflict, OutcomeUnknown):
            # A copy from another shard, a redelivery, a cancel that came first; or an answer that was lost.
            return await self._decide(delivery, record)
        return Held(record=record, seq=seq, payload=delivery.data, origin=_origin(delivery))

    async def _decide(self, delivery: Delivery, tried: Record) -> Outcome:
        """Read who owns the session that this worker tried to create.

        Where there is no record the message is given back, whatever the create was answered: it was accepted, and
        nothing else holds it.
        """
        found = await self._truth.read(tried.tenant, tried.session, tried.pool)
        record, seq = found if found is not None else (None, 0)
        hold = Hold(self._place.worker, tried.epoch)
        step = claims.after_read(record, hold, creating=True)
        if step == "won" and record is not None:
            return Held(record=record, seq=seq, payload=delivery.data, origin=_origin(delivery))
        if step == "claim":
            return await self._claim_queued(delivery.subject, tried.session)
        return "give_back" if step == "give_back" else "drop"

    async def _claim_queued(self, subject: str, session: str) -> Outcome:
        """Compare-and-set `queued` to `running`, re-reading after each loss.

        Each reading also finds an unanswered write that landed, however late.
        """
        _, tenant, pool, _ = parse_queue(subject)
        try:
            parse_task_id(session)
        except InvalidMessage:
            return "drop"  # ours name ids; what a client forges is a hint, and this one names no session
        hold = Hold(self._place.worker, 0)
        for _ in range(claims.TRIES_MAX):
            found = await self._truth.read(tenant, session, pool)
            step = claims.after_read(found[0] if found else None, hold, creating=False)
            if found is None or step == "drop":
                return "drop"
            record, seq = found
            if step == "won":
                return Held(record=record, seq=seq)
            claimed = transitions.claim(
                record, owner=self._place.worker, node=self._place.node, now_ms=_now_ms()
            )
            hold = Hold(self._place.worker, claimed.epoch)
            try:
                return Held(record=claimed, seq=await self._truth.write(claimed, seq))
            except (Conflict, OutcomeUnknown) as exc:
                log.debug("claim.unsure", session_id=session, error=exc.code)
        found = await self._truth.read(tenant, session, pool)
        if found is not None and is_mine(found[0], hold):
            return Held(record=found[0], seq=found[1])
        return "drop"

    async def _reject(self, delivery: Delivery, request: claims.Request, problem: str) -> Outcome:
        """Record a plain message whose headers are wrong; its body stays unread and becomes a dead letter.

        The letter comes first and the ack last, so that a death in between loses neither.
        """
        verdict = Verdict("rejected", "invalid", InvalidMessage(problem).info())
        record = _ended(request, verdict)
        letter, own = letter_of(record, request.task, verdict), delivery.headers.message_id or ""
        await self._truth.bury(
            msgspec.structs.replace(
                letter,
                origin=_origin(delivery),
                message_id="" if own == request.task else own,
            ),
            delivery.data,
        )
        return await self._end_unborn(request, verdict)

    async def _end_unborn(self, request: claims.Request, verdict: Verdict) -> Outcome:
        """Record the end of a plain message that nobody will run."""
        record = _ended(request, verdict)
        attempt = Attempt.of(request.task, record)
        try:
            await self._truth.commit(record, 0, result_without_run(attempt, self._place, verdict))
            log.info("session.ended_unborn", session_id=record.session, status=verdict.status)
        except Conflict:
            found = await self._truth.read(record.tenant, record.session, record.pool)
            if found is None and not await self._truth.result_exists(record, request.task):
                return "give_back"  # as in `_decide`: nothing else holds the message
            log.debug("claim.end_known", session_id=record.session)
        return "drop"


TOO_OLD = ErrorInfo(code="deadline", message=f"older than {DEADLINE_S_MAX // 3600} h: never run")


def _ended(request: claims.Request, verdict: Verdict) -> Record:
    state: EndState = "rejected" if verdict.status == "rejected" else "expired"
    return transitions.ended_unborn(
        request.origin, state=state, reason=verdict.reason or "", now_ms=_now_ms()
    )


def _origin(delivery: Delivery) -> str:
    shard, *_ = parse_queue(delivery.subject)
    return f"{queue_stream(shard)}/{delivery.stream_seq}"


def _now_ms() -> int:
    return int(time.time() * 1000)
