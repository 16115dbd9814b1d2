"""Reading a whole store, to say what of it is damaged and whom that concerns. Nothing is changed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from checkpointer.core.frames import Codec
from checkpointer.core.heads import live_snapshots
from checkpointer.core.roots import roots_of
from checkpointer.core.verify import Seen, Wanted, judge, look_at, newest_of_each
from checkpointer.ports.blobs import BlobStore
from checkpointer.ports.collecting import Heads, Records, Snapshots
from shared.errors import Damaged, InvalidMessage, LimitExceeded, NotFound
from shared.verified import PackDamage, StoreVerified

AT_ONCE = 4
"""Packs that are read at once: each is held whole."""


async def wanted_by_heads(heads: Heads, records: Records) -> list[Wanted]:
    """Return every snapshot that somebody may go back to.

    Raises:
        Unavailable: not all can be read.
    """
    wanted: list[Wanted] = []
    async for head, _ in heads.list():
        roots = roots_of(await records.read(head.tenant, head.session))
        name = f"{head.tenant}/{head.session}"
        wanted += [(name, snapshot) for snapshot in live_snapshots(head, roots)]
    return sorted(wanted, key=lambda one: (one[0], one[1].id))


async def verify_store(
    store: BlobStore,
    snapshots: Snapshots,
    wanted: list[Wanted] | None,
    say: Callable[[int, int], None] = lambda _done, _of: None,
) -> StoreVerified:
    """Read all packs, and check that the snapshots that must be there are whole.

    Args:
        store: what is read.
        snapshots: the same store, as trees.
        wanted: snapshots that must be there; None: each session's newest one.
        say: told now and then how many bytes of how many are read.

    Raises:
        Unavailable: not all can be read: nothing is known.
    """
    packs = [pack async for pack in store.list()]
    total_bytes = sum(pack.size_bytes for pack in packs)
    seen: dict[str, Seen] = {}
    gate = asyncio.Semaphore(AT_ONCE)
    done_bytes = 0

    async def look(key: str) -> None:
        nonlocal done_bytes
        async with gate:
            try:
                data = await store.get(key)
            except NotFound:
                return  # collected in the meantime, or listed by a server that is behind
            except InvalidMessage as exc:
                seen[key] = Seen(key=key, size_bytes=0, damage=str(exc))
                return
            seen[key] = await asyncio.to_thread(lambda: look_at(data, key, Codec()))
            done_bytes += len(data)
            say(done_bytes, total_bytes)

    try:
        async with asyncio.TaskGroup() as group:
            for pack in packs:
                group.create_task(look(pack.key))
    except ExceptionGroup as exc:
        raise exc.exceptions[0] from exc
    by_heads = wanted is not None
    wanted = newest_of_each(seen.values()) if wanted is None else wanted
    damage = judge(seen, wanted, by_heads=by_heads)
    if not damage:
        damage = tuple([one async for one in _trees(snapshots, wanted)])
    return StoreVerified(
        store=store.id,
        by_heads=by_heads,
        packs=len(seen),
        bytes=sum(one.size_bytes for one in seen.values()),
        sessions=len({name for name, _ in wanted}),
        snapshots=len(wanted),
        damage=damage,
    )


async def _trees(snapshots: Snapshots, wanted: list[Wanted]) -> AsyncIterator[PackDamage]:
    """Yield snapshots whose trees name what is in none of their packs."""
    for name, snapshot in wanted:
        try:
            await snapshots.check(snapshot, contents=False)
        except (Damaged, InvalidMessage, LimitExceeded, NotFound) as exc:
            yield PackDamage(pack=snapshot.pack, what=str(exc), sessions=(name,))
