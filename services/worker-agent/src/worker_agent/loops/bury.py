"""Dead letters of tasks that cannot be read, from whoever owns their session."""

from __future__ import annotations

import asyncio
import time

from msgspec.structs import replace

from shared import logs
from shared.errors import InvalidMessage, LimitExceeded, OutcomeUnknown, Unavailable
from shared.record import Record
from worker_agent.core.results import Verdict, letter_of
from worker_agent.core.work import Work
from worker_agent.ports import Truth

log = logs.get(__name__)

BURY_AGAIN_S = 0.5


async def bury(
    truth: Truth, record: Record, work: Work, wrong: InvalidMessage, *, give_up_s: float
) -> Verdict:
    """Keep a task that cannot be read as a dead letter, before its result says so; return its end.

    Raises:
        OutcomeUnknown: the letters' stream did not answer for too long; the next owner tries again.
    """
    verdict = Verdict("rejected", "invalid", wrong.info())
    letter = replace(
        letter_of(record, work.task, verdict),
        origin=work.origin,
        accepted_ms=work.accepted_ms,
        replay_of=work.replay_of,
    )
    end_at = time.monotonic() + give_up_s
    while True:
        try:
            await truth.bury(letter, work.body)
        except (Unavailable, OutcomeUnknown, LimitExceeded) as exc:
            log.warning("dead_letter.late", session_id=record.session, error=exc.code)
            if time.monotonic() >= end_at:
                raise OutcomeUnknown(f"dead letter of {work.task[:80]}: {exc}") from exc
        else:
            return verdict
        await asyncio.sleep(BURY_AGAIN_S)
