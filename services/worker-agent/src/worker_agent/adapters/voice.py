"""What the worker says while a task runs: output and events, as core messages that `OUT` also stores."""

from __future__ import annotations

import time
from typing import Any

from shared import headers, messages, subjects
from shared.bus import Bus
from shared.errors import ServiceError
from shared.messages import OutputEvent
from shared.record import Record
from worker_agent.core.output import Piece


class CoreVoice:
    """Implements `ports.Voice`. What can't be said now is dropped: numbers show the gap, the result has the tail."""

    def __init__(self, bus: Bus, worker: str) -> None:
        """Speak as `worker`."""
        self._bus = bus
        self._worker = worker
        self._attempt: tuple[str, int, int] | None = None
        self._number = 0

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
            headers.NUMBER: str(self._next_number((subject, record.epoch, record.attempt))),
            headers.EPOCH: str(record.epoch),
            headers.ATTEMPT: str(record.attempt),
            headers.AT_MS: str(int(time.time() * 1000)),
        }
        try:
            await self._bus.publish(subject, data, headers=about)
        except ServiceError:
            return

    def _next_number(self, attempt: tuple[str, int, int]) -> int:
        """Count an attempt's messages, sent or not."""
        number = self._number if attempt == self._attempt else 0
        self._attempt, self._number = attempt, number + 1
        return number
