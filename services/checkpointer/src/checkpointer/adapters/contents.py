"""What snapshots consist of, read from the store in threads: for collectors, and for whoever checks them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

from checkpointer.adapters.engine.nodes import ChunkReader, TreeReader
from checkpointer.adapters.engine.stored import Memo, StoredSnapshot
from checkpointer.adapters.engine.threads import Bridge, Packs
from checkpointer.core.content import expand
from checkpointer.core.entries import FILE, INLINE, ZERO_ID, show
from checkpointer.core.snapshot import keys_of
from checkpointer.core.trees import join, walk
from shared.workspace import SnapshotRef

T = TypeVar("T")
THREADS: Final = 2


class StoredContents:
    """Implements `ports.collecting.Snapshots`."""

    def __init__(self, store: Packs) -> None:
        """Read from `store`."""
        self._store = store
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="contents")

    async def packs_of(self, snapshot: SnapshotRef) -> frozenset[str]:
        """Return the keys of all that lies in the store for a snapshot."""

        def read(bridge: Bridge) -> frozenset[str]:
            stored = StoredSnapshot(snapshot, bridge, Memo(bridge.store.id))
            return frozenset(keys_of(stored.body(), snapshot))

        return await self._run(read)

    async def check(self, snapshot: SnapshotRef, *, contents: bool) -> None:
        """Read all that a snapshot consists of, and compare it with its names."""
        await self._run(lambda bridge: _check(snapshot, bridge, contents=contents))

    async def _run(self, work: Callable[[Bridge], T]) -> T:
        loop = asyncio.get_running_loop()
        bridge = Bridge(self._store, loop)
        try:
            return await loop.run_in_executor(self._threads, lambda: work(bridge))
        finally:
            bridge.stop()


def _check(snapshot: SnapshotRef, bridge: Bridge, *, contents: bool) -> None:
    stored = StoredSnapshot(snapshot, bridge, Memo(bridge.store.id))
    body = stored.body()
    chunks = ChunkReader(stored.index(body), bridge)
    tree = TreeReader(chunks)
    for directory in walk(body.root, tree.entries):
        bridge.check()
        if not contents:
            continue
        for entry in directory.entries:
            if entry.kind != FILE or entry.form == INLINE:
                continue
            where = show(join(directory.path, entry.name))
            for one, _ in expand(entry, partial(chunks.chunk, where=where), where):
                if one != ZERO_ID:
                    chunks.chunk(one, where)
