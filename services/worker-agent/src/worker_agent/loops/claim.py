"""Rule 1 of ownership, carried out: from a queue message to a session that this worker owns, or to none."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Literal

from shared import logs, transitions
from shared.errors import Conflict, LimitExceeded, OutcomeUnknown, ServiceError, Unavailable
from shared.limits import DEADLINE_S_MAX
from shared.record import EndState, Hold, Record, is_mine
from shared.subjects import parse_queue
from worker_agent.core import claims
from worker_agent.core.results import Attempt, Place, Verdict, result_without_run
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

    async def claim(self, delivery: Delivery) -> Held | None:
        """Return the session won, or None: then the message was dropped or given back."""
        token = delivery.token
        request = claims.read_request(
            delivery.subject,
            delivery.message_id,
            stream_seq=delivery.stream_seq,
            time_ms=delivery.time_ms,
        )
        session = token or request.task
        outcome: Outcome = "give_back"
        if not self._down.is_down(session):
            try:
                outcome = await (
                    self._claim_queued(delivery.subject, token)
                    if token is not None
                    else self._create(delivery, request)
                )
            except (
                Unavailable,
                OutcomeUnknown,
                LimitExceeded,
            ):  # a full store, too, is a shard that is down
                self._down.mark(session)
        await self._settle(delivery, session, outcome)
        return outcome if isinstance(outcome, Held) else None

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
            return await self._end_unborn(request, Verdict("expired", "deadline"))
        if (why := self.full.why(request.origin.tenant, time.monotonic())) is not None:
            return await self._end_unborn(request, Verdict("rejected", "limit", why))
        record = transitions.create(
            request.origin, owner=self._place.worker, node=self._place.node, now_ms=now_ms
        )
        try:
            seq = await self._truth.create(record, delivery.data)
        except Conflict:
            # A copy from another shard, a redelivery, or a cancel that came first.
            return await self._decide(delivery, record, creating=False)
        except OutcomeUnknown:
            return await self._decide(delivery, record, creating=True)
        return Held(record=record, seq=seq, payload=delivery.data)

    async def _decide(self, delivery: Delivery, tried: Record, *, creating: bool) -> Outcome:
        """Read who owns the session that this worker tried to create."""
        found = await self._truth.read(tried.tenant, tried.session, tried.pool)
        record, seq = found if found is not None else (None, 0)
        hold = Hold(self._place.worker, tried.epoch)
        step = claims.after_read(record, hold, creating=creating)
        if step == "won" and record is not None:
            return Held(record=record, seq=seq, payload=delivery.data)
        if step == "claim":
            return await self._claim_queued(delivery.subject, tried.session)
        return "give_back" if step == "give_back" else "drop"

    async def _claim_queued(self, subject: str, session: str) -> Outcome:
        """Compare-and-set `queued` to `running`, re-reading after each loss.

        Each reading also finds an unanswered write that landed, however late.
        """
        _, tenant, pool, _ = parse_queue(subject)
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

    async def _end_unborn(self, request: claims.Request, verdict: Verdict) -> Outcome:
        """Record the end of a plain message that nobody will run."""
        state: EndState = "expired" if verdict.status == "expired" else "rejected"
        record = transitions.ended_unborn(
            request.origin, state=state, reason=verdict.reason or "", now_ms=_now_ms()
        )
        attempt = Attempt.of(request.task, record)
        result = result_without_run(attempt, self._place, verdict)
        try:
            await self._truth.commit(record, 0, result)
        except Conflict:
            log.debug("claim.end_known", session_id=record.session)
        return "drop"


def _now_ms() -> int:
    return int(time.time() * 1000)
