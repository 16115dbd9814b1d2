"""What the worker says while a task runs: output and events, as core messages that `OUT` also stores."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from shared import headers, messages, subjects
from shared.bus import Bus
from shared.errors import ServiceError, Unavailable
from shared.messages import OutputEvent
from shared.record import Record
from worker_agent.core.output import Piece

OUTAGE_S = 2.0
"""So long, of each outage, output waits for a connection; user code that writes much waits with it."""
OUTAGE_STEP_S = 0.02
Attempt = tuple[str, str, int, int]
"""Session, task, epoch and number of an attempt."""


class CoreVoice:
    """Implements `ports.Voice`. While its connection is renewed the task's output waits, so that nothing of it is lost.

    What can't be said within that time is dropped: numbers show the gap, the result has the tail.
    """

    def __init__(self, bus: Bus, worker: str) -> None:
        """Speak as `worker`."""
        self._bus = bus
        self._worker = worker
        self._attempt: Attempt | None = None
        self._number = 0
        self._waits_until: float | None = None

    def said(self, record: Record, task: str) -> int:
        """Return how many messages this attempt has sent."""
        return self._number if self._attempt == _attempt_of(record, task) else 0

    async def output(self, record: Record, task: str, piece: Piece) -> None:
        """Publish a piece of output."""
        await self._say(
            record,
            task,
            piece.data,
            {
                headers.EVENT: "output",
                headers.OFFSET: str(piece.offset),
                headers.STREAM: piece.stream,
                headers.STREAM_OFFSET: str(piece.stream_offset),
            },
        )

    async def event(self, record: Record, task: str, name: str, **details: Any) -> None:
        """Publish an event."""
        body = messages.encode(OutputEvent(task=task, worker=self._worker, **details))
        await self._say(record, task, body, {headers.EVENT: name})

    async def _say(self, record: Record, task: str, data: bytes, about: dict[str, str]) -> None:
        subject = subjects.output(record.tenant, record.session, task)
        about |= {
            headers.NUMBER: str(self._next_number(_attempt_of(record, task))),
            headers.EPOCH: str(record.epoch),
            headers.ATTEMPT: str(record.attempt),
            headers.AT_MS: str(int(time.time() * 1000)),
        }
        while not await self._said(subject, data, about):
            now = time.monotonic()
            if self._waits_until is None:
                self._waits_until = now + OUTAGE_S
            if now >= self._waits_until:
                return
            await asyncio.sleep(OUTAGE_STEP_S)
        self._waits_until = None

    async def _said(self, subject: str, data: bytes, about: dict[str, str]) -> bool:
        """Try to publish; return False where that may go better soon."""
        try:
            await self._bus.publish(subject, data, headers=about)
        except Unavailable:
            return False
        except ServiceError:
            return True  # it will never be taken
        return True

    def _next_number(self, attempt: Attempt) -> int:
        """Count an attempt's messages, sent or not."""
        number = self._number if attempt == self._attempt else 0
        self._attempt, self._number = attempt, number + 1
        return number


def _attempt_of(record: Record, task: str) -> Attempt:
    return record.session, task, record.epoch, record.attempt
