"""Removing the packs of a session that no snapshot needs, beside live writers and without a lock.

The order is all there is to it. Candidates are listed first; then one compare-and-set lets snapshots go and fences every
writer that has read the head before; the roots are those of the head that was written. Whatever cannot be read or listed
ends the collection before anything is removed.
"""

from __future__ import annotations

import msgspec

from checkpointer.core import heads as core
from checkpointer.core.collect import sweep
from checkpointer.core.keys import folder
from checkpointer.core.retention import DEFAULT, Retention
from checkpointer.core.roots import Roots, roots_of
from checkpointer.ports.blobs import BlobStore
from checkpointer.ports.collecting import Heads, Records, Snapshots
from shared import logs
from shared.workspace import WorkspaceHead

log = logs.get(__name__)


class Collected(msgspec.Struct, frozen=True, kw_only=True):
    """What a collection did."""

    head: WorkspaceHead | None = None
    """As it was written; None: the session has none."""
    seq: int = 0
    """Of that head."""
    ended: bool = False
    """The session has ended."""
    base: str = ""
    """Of a fork: the session that it comes from, as the record says."""
    removed: int = 0
    """Packs."""
    removed_bytes: int = 0
    kept_bytes: int = 0


class Collector:
    """Collects for one session at a time."""

    def __init__(
        self,
        store: BlobStore,
        heads: Heads,
        records: Records,
        snapshots: Snapshots,
        retention: Retention = DEFAULT,
    ) -> None:
        """Collect in `store` what the others do not name."""
        self.store = store
        """Where packs lie."""
        self._heads = heads
        self._records = records
        self._snapshots = snapshots
        self._retention = retention

    async def collect(self, tenant: str, session: str, now_ms: int) -> Collected:
        """Let snapshots go by the retention, and remove the packs that nothing needs any more.

        Args:
            tenant: whose session.
            session: which.
            now_ms: wall clock, milliseconds since 1970.

        Raises:
            Conflict: somebody else wrote the head; nothing was removed.
            ServiceError: something could not be read or listed; nothing was removed. Or not all could be removed.
        """
        candidates = [pack async for pack in self.store.list(folder(tenant, session))]
        roots = roots_of(await self._records.read(tenant, session))
        head, seq = await self._heads.read(tenant, session)
        if head is None and not roots.ended:
            return Collected()  # its first snapshot is on the way
        if head is not None:
            head = core.expired(head, roots, now_ms, self._retention)
            seq = await self._heads.write(head, seq)
        live = await self._live_packs(head, roots)
        if not live and not roots.ended:
            return Collected(head=head, seq=seq)  # a session that lives, and has nothing to keep?
        found = sweep(candidates, live)
        if found.is_much and not roots.ended:
            await self._check(head, roots, live)
        for pack in found.garbage:
            await self.store.delete(pack.key)
        if found.garbage:
            log.info(
                "garbage.collected",
                session_id=session,
                packs=len(found.garbage),
                bytes=found.garbage_bytes,
                kept_bytes=found.kept_bytes,
            )
        return Collected(
            head=head,
            seq=seq,
            ended=roots.ended,
            base=roots.base,
            removed=len(found.garbage),
            removed_bytes=found.garbage_bytes,
            kept_bytes=found.kept_bytes,
        )

    async def _live_packs(self, head: WorkspaceHead | None, roots: Roots) -> frozenset[str]:
        live: set[str] = set()
        for snapshot in core.live_snapshots(head, roots) if head else ():
            live |= await self._snapshots.packs_of(snapshot)
        return frozenset(live)

    async def _check(self, head: WorkspaceHead | None, roots: Roots, live: frozenset[str]) -> None:
        """Make sure that all that stays is whole: much goes."""
        for key in sorted(live):
            await self.store.size(key)
        for snapshot in core.live_snapshots(head, roots) if head else ():
            await self._snapshots.check(snapshot, contents=False)
