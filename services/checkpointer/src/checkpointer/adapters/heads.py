"""Workspace heads over the state streams."""

from __future__ import annotations

from collections.abc import AsyncIterator

from shared import logs, messages, subjects
from shared.bus import Bus
from shared.errors import InvalidMessage
from shared.ids import SHARDS, home
from shared.workspace import WorkspaceHead

log = logs.get(__name__)

ANSWER_S = 1.0


class StreamHeads:
    """Implements `ports.heads.Heads`."""

    def __init__(self, bus: Bus) -> None:
        """Use the service's connection."""
        self._bus = bus

    async def read(self, tenant: str, session: str) -> tuple[WorkspaceHead | None, int]:
        """Return a session's workspace head and its sequence, as the leader has it."""
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

    async def remove(self, head: WorkspaceHead, expected_seq: int) -> None:
        """Remove a head up to its sequence."""
        stream = subjects.state_stream(home(head.session))
        subject = subjects.workspace_head(head.pool, head.tenant, head.session)
        await self._bus.js_api(
            f"STREAM.PURGE.{stream}", {"filter": subject, "seq": expected_seq + 1}
        )

    async def list(self) -> AsyncIterator[tuple[WorkspaceHead, int]]:
        """Yield all heads with their sequences, as some replica has them."""
        for shard in range(SHARDS):
            filter_ = f"s.{shard}.ws.>"
            async for stored in self._bus.scan(subjects.state_stream(shard), filter_):
                try:
                    yield messages.decode(stored.data, WorkspaceHead), stored.seq
                except InvalidMessage as exc:
                    log.warning("head.unreadable", subject=stored.subject, error=str(exc))
