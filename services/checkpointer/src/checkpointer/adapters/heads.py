"""Workspace heads over the state streams."""

from __future__ import annotations

from collections.abc import AsyncIterator

from shared import messages, subjects
from shared.bus import Bus
from shared.ids import SHARDS, home
from shared.workspace import WorkspaceHead

ANSWER_S = 0.5


class StreamHeads:
    """Workspace heads, read from their leader and changed by compare-and-set."""

    def __init__(self, bus: Bus) -> None:
        """Use the service's connection."""
        self._bus = bus

    async def read(self, tenant: str, session: str) -> tuple[WorkspaceHead | None, int]:
        """Return a session's workspace head and its sequence; (None, 0): there is none."""
        stored = await self._bus.read_last(
            subjects.state_stream(home(session)),
            subjects.workspace_head("*", tenant, session),
            timeout_s=ANSWER_S,
        )
        if stored is None:
            return None, 0
        return messages.decode(stored.data, WorkspaceHead), stored.seq

    async def write(self, head: WorkspaceHead, expected_seq: int) -> int:
        """Write a head by compare-and-set; return its new sequence."""
        return await self._bus.compare_and_set(
            subjects.workspace_head(head.pool, head.tenant, head.session),
            messages.encode(head),
            expected_seq=expected_seq,
            timeout_s=ANSWER_S,
        )

    async def list(self) -> AsyncIterator[tuple[WorkspaceHead, int]]:
        """Yield all heads with their sequences, perhaps a little old."""
        for shard in range(SHARDS):
            async for stored in self._bus.scan(subjects.state_stream(shard), f"s.{shard}.ws.>"):
                yield messages.decode(stored.data, WorkspaceHead), stored.seq
