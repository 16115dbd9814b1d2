"""Packs of sessions that nobody knows any more: what a zombie stored after its session was deleted, say."""

from __future__ import annotations

from checkpointer.core.keys import parse_key
from checkpointer.ports.blobs import BlobStore
from checkpointer.ports.collecting import Heads, Records
from shared.record import ENDED

YOUNG_MS = 600_000
"""Whose newest pack is younger is left for the next look: a save may be under way."""
Name = tuple[str, str]
"""(tenant, session)."""


async def find_orphans(store: BlobStore, heads: Heads, records: Records, now_ms: int) -> list[Name]:
    """Return sessions that have ended, and have packs but no workspace head.

    Args:
        store: where packs lie.
        heads: workspace heads.
        records: session records.
        now_ms: wall clock, milliseconds since 1970.

    Raises:
        Unavailable: something could not be read: nothing is concluded.
    """
    newest_ms: dict[Name, int] = {}
    async for pack in store.list():
        key = parse_key(pack.key)
        name = (key.tenant, key.session)
        newest_ms[name] = max(newest_ms.get(name, 0), pack.stored_ms)
    orphans = []
    for name, stored_ms in sorted(newest_ms.items()):
        if stored_ms > now_ms - YOUNG_MS:
            continue
        head, _ = await heads.read(*name)
        record = await records.read(*name) if head is None else None
        if head is None and (record is None or record.state in ENDED):
            orphans.append(name)
    return orphans
