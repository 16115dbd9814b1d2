"""Deleting an ended session's workspace: its packs, then its head. What forks hold stays with it, and goes with the last."""

from __future__ import annotations

from checkpointer.core.heads import unpinned
from checkpointer.loops.change_head import change_head
from checkpointer.loops.collect_garbage import Collected, Collector
from checkpointer.ports.collecting import Heads
from shared import logs
from shared.errors import NotFound
from shared.workspace import WorkspaceHead

log = logs.get(__name__)

CHAIN_MAX = 64
"""Forks of forks whose tombstones one deletion takes along; the next look takes the rest."""


class Deleter:
    """Deletes, session by session. Asked twice, it goes on where it was."""

    def __init__(self, collector: Collector, heads: Heads) -> None:
        """Collect by `collector`."""
        self._collector = collector
        self._heads = heads

    async def delete(self, tenant: str, session: str, now_ms: int) -> Collected:
        """Delete a session's workspace as far as no fork holds it. A session that lives only has its garbage collected.

        Raises:
            ServiceError: not all was deleted; ask again.
        """
        first = done = await self._collector.collect(tenant, session, now_ms)
        if first.head is None and first.ended and first.base:
            # A fork that ended before it had a head may have left a pin.
            await self._unpin(tenant, session, first.base)
        for _ in range(CHAIN_MAX):
            head = done.head
            if head is None or not head.deleted or head.pins:
                break
            base = head.base.session if head.base else ""
            below = await self._unpin(tenant, head.session, base) if base else None
            await self._heads.remove(head, done.seq)
            log.info("workspace.deleted", session_id=head.session, packs=done.removed)
            if below is None or not below.deleted or below.pins:
                break
            done = await self._collector.collect(tenant, below.session, now_ms)
        return first

    async def _unpin(self, tenant: str, fork: str, parent: str) -> WorkspaceHead | None:
        """Let go what a session was forked from; return that session's head, where there is one."""
        try:
            return await change_head(self._heads, tenant, parent, lambda head: unpinned(head, fork))
        except NotFound:
            return None
