"""Questions to the pool-managers, and their refusals."""

from __future__ import annotations

import asyncio
import time
from typing import TypeVar

import msgspec

from shared import messages
from shared.bus import Bus
from shared.errors import ErrorInfo, OutcomeUnknown, ServiceError, Unavailable, error_of

ASK_TIMEOUT_S = 5.0
LONG_S = 30.0
"""For questions about snapshots: a checkpointer may read from its store, a shard may elect its leader."""
UNAVAILABLE_S = 20.0
"""So long such a question is asked again where nobody can answer it now: an election takes 4 to 9 s."""
AGAIN_S = 0.25
EVERY_S = {"snapshots": 2.0, "fork": 2.0, "snapshot_name": 2.0, "diff": 12.0}
"""Questions that are the same however often they are asked (a fork by its id), and after how long without an answer they
are asked again: whoever took one may have died of it. A comparison is work for a checkpointer, others are not."""
T = TypeVar("T")


class _Refusal(msgspec.Struct):
    error: ErrorInfo | None = None


async def ask(bus: Bus, subject: str, question: msgspec.Struct, kind: type[T]) -> T:
    """Ask and return the answer; what may be asked twice is asked again while nobody answers, within its time.

    Raises:
        Unavailable: no pool-manager is there, or none can answer now.
        ServiceError: it refuses, with its code.
        OutcomeUnknown: no answer in time.
    """
    body, what = messages.encode(question), subject.rpartition(".")[2]
    every_s = EVERY_S.get(what)
    if every_s is None:
        data = await _once(bus, subject, body, ASK_TIMEOUT_S)
    else:
        data = await _patiently(bus, subject, body, every_s)
    return messages.decode(data, kind)


async def _once(bus: Bus, subject: str, body: bytes, timeout_s: float) -> bytes:
    answer = await bus.request(subject, body, timeout_s=timeout_s)
    if (refused := messages.decode(answer.data, _Refusal).error) is not None:
        raise error_of(refused)
    return answer.data


async def _patiently(bus: Bus, subject: str, body: bytes, every_s: float) -> bytes:
    """Ask, and listen to whoever answers first of those that were asked."""
    began = time.monotonic()
    asked: set[asyncio.Task[bytes]] = set()
    unsure: ServiceError = OutcomeUnknown(f"no answer on {subject} within {LONG_S:g} s")
    problem: ServiceError | None = None
    try:
        while (left_s := LONG_S - (time.monotonic() - began)) > 0:
            asked.add(asyncio.create_task(_once(bus, subject, body, left_s)))
            ended, asked = await asyncio.wait(
                asked, timeout=min(every_s, left_s), return_when=asyncio.FIRST_COMPLETED
            )
            for one, error in [(one, one.exception()) for one in ended]:
                if error is None:
                    return one.result()
                if not isinstance(error, Unavailable | OutcomeUnknown):
                    raise error
                problem = error if problem is None or problem.definite else problem
            if ended and not asked and time.monotonic() - began > UNAVAILABLE_S:
                break
            if ended:
                await asyncio.sleep(AGAIN_S)
        raise (problem or unsure) if not asked else unsure
    finally:
        for one in asked:
            one.cancel()
