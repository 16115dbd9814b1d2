"""Reading what is saved before somebody needs it: a pack that rots is named while its neighbours may still be good."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from checkpointer.core.frames import Codec
from checkpointer.core.heads import live_snapshots
from checkpointer.core.roots import roots_of
from checkpointer.core.verify import Seen, judge, look_at
from checkpointer.ports.blobs import BlobStore
from checkpointer.ports.collecting import Heads, Records, Snapshots
from shared import logs
from shared.errors import Damaged, InvalidMessage, LimitExceeded, NotFound
from shared.verified import PackDamage
from shared.workspace import SnapshotRef

log = logs.get(__name__)

TRIES_MAX = 3


class Scrubber:
    """Scrubs one session at a time, pack by pack."""

    def __init__(
        self,
        store: BlobStore,
        truth: tuple[Heads, Records],
        snapshots: Snapshots,
        on_found: Callable[[PackDamage], None] = lambda _: None,
    ) -> None:
        """Read from `store` what the others name; tell `on_found` of each damaged or missing pack."""
        self._store = store
        self._heads, self._records = truth
        self._snapshots = snapshots
        self._on_found = on_found

    async def scrub(self, tenant: str, session: str) -> tuple[PackDamage, ...]:
        """Read all packs of a session's snapshots, and return what is damaged.

        What a collector has let go meanwhile is no damage: after anything wrong the head is read again.

        Raises:
            ServiceError: something cannot be read now: nothing is known.
        """
        for _ in range(TRIES_MAX):
            refs = await self._live(tenant, session)
            damage = await self._look(f"{tenant}/{session}", refs)
            if not damage:
                return ()
            if refs == await self._live(tenant, session):
                for one in damage:
                    log.error("pack.damaged", pack=one.pack, what=one.what, sessions=one.sessions)
                    self._on_found(one)
                return damage
        return ()  # it changes too often: another time

    async def _live(self, tenant: str, session: str) -> tuple[SnapshotRef, ...]:
        roots = roots_of(await self._records.read(tenant, session))
        head, _ = await self._heads.read(tenant, session)
        return live_snapshots(head, roots) if head is not None else ()

    async def _look(self, name: str, refs: tuple[SnapshotRef, ...]) -> tuple[PackDamage, ...]:
        keys = {ref.pack for ref in refs}
        for ref in refs:
            try:
                keys |= await self._snapshots.packs_of(ref)
            except (Damaged, InvalidMessage, LimitExceeded, NotFound):
                continue  # its own pack tells
        seen: dict[str, Seen] = {}
        for key in sorted(keys):
            try:
                data = await self._store.get(key)
            except NotFound:
                continue
            except InvalidMessage as exc:
                seen[key] = Seen(key=key, size_bytes=0, damage=str(exc))
                continue
            seen[key] = await asyncio.to_thread(look_at, data, key, Codec())
        return judge(seen, [(name, ref) for ref in refs], by_heads=True)
