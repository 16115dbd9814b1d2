"""Looks into snapshots of a store, in threads: nothing is written anywhere."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice
from typing import Final

from checkpointer.adapters.engine.nodes import ChunkReader, TreeReader
from checkpointer.adapters.engine.stored import Memo, StoredSnapshot
from checkpointer.adapters.engine.threads import Bridge, Packs
from checkpointer.core.entries import DIRECTORY, FILE, SYMLINK, Entry
from checkpointer.core.trees import Change, differ
from shared.errors import Damaged
from shared.snapshots import DiffRow
from shared.workspace import SnapshotRef

THREADS: Final = 4
WALKS_MAX: Final = 4
"""Comparisons of which more pages may be asked for: where each stands is remembered, with what it has unpacked."""
PATH_LENGTH_MAX: Final = 4096
"""Characters of a path that are shown."""
PAGE_LENGTH_MAX: Final = 256 * 1024
"""Characters of paths in one answer; a message may not be much larger."""
_TYPES: Final = {FILE: "file", DIRECTORY: "directory", SYMLINK: "symlink"}


class SnapshotLooker:
    """Implements `ports.trees.Trees`."""

    def __init__(self, packs: Callable[[], Packs]) -> None:
        """Read from what `packs` returns, or raises that there is none yet."""
        self._packs = packs
        self._walks: OrderedDict[tuple[str, str], _Walk] = OrderedDict()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="look")

    async def differ(
        self, before: SnapshotRef, after: SnapshotRef, skip: int, limit: int
    ) -> tuple[tuple[DiffRow, ...], bool]:
        """Return a page of differences; see `Trees`."""
        loop, pair = asyncio.get_running_loop(), (before.id, after.id)
        walk = self._walks.pop(pair, None)
        if walk is None or walk.position > skip:
            bridge = Bridge(self._packs(), loop)
            walk = _Walk(bridge, _changes(before, after, bridge))
        page: tuple[tuple[DiffRow, ...], bool] | None = None
        try:
            page = await loop.run_in_executor(self._threads, walk.page, skip, limit)
        finally:
            if page is None or not page[1]:
                walk.bridge.stop()
            else:
                self._keep(pair, walk)
        return page

    def _keep(self, pair: tuple[str, str], walk: _Walk) -> None:
        """Go on there with the next page, instead of from the beginning: all pages together take one way."""
        self._walks[pair] = walk
        while len(self._walks) > WALKS_MAX:
            _, oldest = self._walks.popitem(last=False)
            oldest.bridge.stop()


def _changes(before: SnapshotRef, after: SnapshotRef, bridge: Bridge) -> Iterator[Change]:
    """Yield how two snapshots differ; the nodes of each are found by its own index."""
    if before.id == after.id:
        return
    memo = Memo(bridge.store.id)
    stored = [StoredSnapshot(ref, bridge, memo) for ref in (before, after)]
    roots = [one.body() for one in stored]
    trees = [
        TreeReader(ChunkReader(one.index(body), bridge))
        for one, body in zip(stored, roots, strict=True)
    ]

    def fetch(entry: Entry, path: bytes) -> list[Entry]:
        bridge.check()
        try:
            return trees[1].entries(entry, path)
        except Damaged:  # of the older one, perhaps, whose node the newer one does not have
            return trees[0].entries(entry, path)

    yield from differ(roots[0].root, roots[1].root, fetch)


class _Walk:
    """A comparison on its way through two trees. For one thread at a time."""

    def __init__(self, bridge: Bridge, changes: Iterator[Change]) -> None:
        self.bridge = bridge
        self.position = 0
        """Differences that were passed."""
        self._changes = changes

    def page(self, skip: int, limit: int) -> tuple[tuple[DiffRow, ...], bool]:
        """Return the differences from the one numbered `skip` on, not before `position`, and whether there are more."""
        rows: list[DiffRow] = []
        length = 0
        for change in islice(self._changes, skip - self.position, None):
            if len(rows) == limit or length > PAGE_LENGTH_MAX:
                self._changes = chain((change,), self._changes)
                self.position = skip + len(rows)
                return tuple(rows), True
            rows.append(_row(change))
            length += len(rows[-1].path)
        return tuple(rows), False


def _row(change: Change) -> DiffRow:
    return DiffRow(
        path=change.path.decode("utf-8", "backslashreplace")[:PATH_LENGTH_MAX],
        change=change.change,
        type=_TYPES.get(change.kind, "other"),
        size_before=change.size_before,
        size_after=change.size_after,
    )
