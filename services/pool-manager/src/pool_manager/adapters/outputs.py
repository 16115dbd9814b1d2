"""The stream of output."""

from __future__ import annotations

from collections.abc import AsyncIterator

from pool_manager.core.replays import StoredOutput
from shared import subjects
from shared.bus import Bus, Stored

STREAM = subjects.OUTPUT_STREAM
BATCH = 1024
"""Messages read at once; how many bytes is bounded by `shared.bus`."""


class StreamOutputs:
    """Implements `ports.outputs.Outputs`."""

    def __init__(self, bus: Bus) -> None:
        """Use the service's connection."""
        self._bus = bus

    async def scan(
        self, tenant: str, session: str, task: str, after_seq: int
    ) -> AsyncIterator[StoredOutput]:
        """Read a task's messages that follow a sequence, in order."""
        subject = subjects.output(tenant, session, task)
        async for stored in self._bus.scan(STREAM, subject, batch=BATCH, after_seq=after_seq):
            yield _said(stored)

    async def following(
        self, tenant: str, session: str, task: str, after_seq: int
    ) -> StoredOutput | None:
        """Return a task's message that follows a sequence, as the leader has it."""
        subject = subjects.output(tenant, session, task)
        stored = await self._bus.read_next(STREAM, subject, after_seq=after_seq)
        return None if stored is None else _said(stored)

    async def last(self, tenant: str, session: str, task: str) -> StoredOutput | None:
        """Return a task's newest message, as the leader has it."""
        stored = await self._bus.read_last(STREAM, subjects.output(tenant, session, task))
        return None if stored is None else _said(stored)


def _said(stored: Stored) -> StoredOutput:
    return StoredOutput(stored.seq, stored.time_ms, stored.headers, stored.data)
