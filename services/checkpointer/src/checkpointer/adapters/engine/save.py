"""A save, in a thread of its own: scan, read what changed, store what is new, name it all by one snapshot."""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

import msgspec

from checkpointer.adapters.engine.batches import Batch, Item, Shared, make_batches, seal
from checkpointer.adapters.engine.findings import Findings
from checkpointer.adapters.engine.gather import Gatherer
from checkpointer.adapters.engine.nodes import ChunkReader, TreeReader
from checkpointer.adapters.engine.publish import Basis, Packing, Tree, make_root, publish
from checkpointer.adapters.engine.remember import (
    Root,
    SavedTree,
    make_key,
    memo_file,
    remember_saved,
)
from checkpointer.adapters.engine.stored import StoredSnapshot, load_memo, save_memo
from checkpointer.adapters.engine.threads import Bridge
from checkpointer.adapters.files.cache import CachedFolder, CacheKey, load_cache
from checkpointer.adapters.files.folders import OpenFolders
from checkpointer.adapters.files.scan import scan
from checkpointer.core.assemble import Assembled, Assembler
from checkpointer.core.entries import Entry, decode_node, show
from checkpointer.core.frames import Codec
from checkpointer.core.hot import next_hot
from checkpointer.core.index import Index
from checkpointer.core.listings import UNLIKE_ANY
from checkpointer.core.nodes import NodeWriter
from checkpointer.core.plan import Plan, make_plan
from checkpointer.core.scans import Look, Scan
from checkpointer.core.snapshot import VERSION, Snapshot, cut_torn
from checkpointer.core.trees import join, walk
from shared.errors import LimitExceeded
from shared.workspace import SnapshotRef

THREADS_MAX: Final = 4
ALONE_BYTES: Final = 8 * 1024 * 1024
"""Less than that is read by the save's own thread."""
SMALL_FILES: Final = 32
"""A batch of so many files or more is read by one thread; see `_Save._gather_together`."""


class SaveJob(msgspec.Struct, frozen=True, kw_only=True):
    """What to save."""

    root: int
    """Descriptor of the workspace's directory; stays the caller's."""
    tenant: str
    session: str
    parent: SnapshotRef | None
    look: Look = Look()
    epoch: int = 0
    task: str = ""
    position: int = 0
    pause_s: float = 1.0
    """`Watcher.scanned` comes after so long at the latest, once the scan is done: what is read later may be torn."""
    excludes: tuple[str, ...] = ()
    """As they stand in the body; `look` holds them compiled."""
    cache: Path | None = None
    """File of what is remembered between saves; one beside it holds the packs'. None: everything is read."""


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """What a save came to."""

    ref: SnapshotRef | None
    """The new snapshot; the parent where nothing had changed; None: there was none, and the workspace is empty."""
    is_new: bool
    torn: tuple[bytes, ...] = ()
    skipped: dict[bytes, str] = {}
    stored_bytes: int = 0
    """Uploaded."""
    read_bytes: int = 0
    """Content that was read."""


class Watcher(msgspec.Struct):
    """Whom a save tells how far it is; called in its thread."""

    scanned: Callable[[], None] = lambda: None
    """Nothing of the live tree is needed any more, or it has taken `pause_s`: user code may go on. Called once."""
    moved: Callable[[int, int, int, int], None] = lambda _done, _of, _entries, _of_entries: None
    """Bytes and entries done, and of how many."""


def save(job: SaveJob, bridge: Bridge, watcher: Watcher) -> Saved:
    """Store a snapshot of a workspace, unless nothing changed.

    Raises:
        LimitExceeded: names the path and the limit.
        Damaged, NotFound: the parent snapshot is not what was stored.
        Unavailable: the store or the disk.
    """
    return _Save(job, bridge, watcher).run()


class _Save:
    """One save's state."""

    def __init__(self, job: SaveJob, bridge: Bridge, watcher: Watcher) -> None:
        self._job = job
        self._bridge = bridge
        self._watcher = watcher
        self._memo = load_memo(memo_file(job.cache), bridge.store.id)
        self._stored = (
            None if job.parent is None else StoredSnapshot(job.parent, bridge, self._memo)
        )
        self._parent: Snapshot | None = None
        self._index = Index()
        self._packing = Packing(bridge, self._memo, (job.tenant, job.session))
        self._read_bytes = 0
        self._pause_ends = 0.0
        self._is_let_go = False

    def _key(self, seen: Scan, of: SnapshotRef | None) -> CacheKey:
        root = Root(seen.device, seen.inode, seen.uid, seen.gid)
        return make_key(self._bridge.store.id, (self._job.tenant, self._job.session), root, of)

    def run(self) -> Saved:
        """Do it."""
        at_ms = int(time.time() * 1000)
        job = self._job
        self._pause_ends = time.monotonic() + job.pause_s
        seen = scan(job.root, job.look, lambda _entries, _bytes: self._bridge.check())
        key = self._key(seen, job.parent)
        known = load_cache(job.cache, key) if job.cache and job.parent else {}
        if job.parent is None and not seen.entries:
            self._let_go()
            return Saved(ref=None, is_new=False, skipped=seen.skipped)
        if self._stored is not None:
            self._parent = self._stored.body()
            if not known:
                self._index = self._stored.index(self._parent)
                known = self._recall(self._parent)
        plan = make_plan(seen, known)
        if self._stored and self._parent and plan.works and not self._index.packs:
            self._index = self._stored.index(self._parent)
        try:
            return self._store(seen, plan, known, at_ms)
        except LimitExceeded:
            # The store's, perhaps: while this lies there nobody else could save anything.
            self._packing.take_back()
            raise
        except BaseException:
            self._packing.abandon()
            raise

    def _recall(self, parent: Snapshot) -> dict[bytes, CachedFolder]:
        """Return what the parent snapshot holds, where no cache tells: all is read again, but what can't be read stays."""
        known: dict[bytes, CachedFolder] = {}
        reader = TreeReader(ChunkReader(self._index, self._bridge))

        def fetch(entry: Entry, path: bytes) -> list[Entry]:
            self._bridge.check()
            node = reader.node(entry, path)
            known[path] = CachedFolder(*UNLIKE_ANY, node)
            return decode_node(node, show(path))

        for _ in walk(parent.root, fetch):
            pass
        return known

    def _store(self, seen: Scan, plan: Plan, known: dict[bytes, CachedFolder], at_ms: int) -> Saved:
        """Read, build the tree, and store what is new."""
        nodes = NodeWriter(self._index, self._packing.codec)
        findings = Findings(seen, nodes.keep_list)
        total_bytes = sum(item.stat.size for item in plan.wanted if stat.S_ISREG(item.stat.mode))
        done = 0
        for batch in self._gather(seen, plan, total_bytes):
            findings.add(batch)
            done += batch.done
            self._read_bytes += batch.data_bytes
            self._watcher.moved(self._read_bytes, total_bytes, done, len(plan.wanted))
            if time.monotonic() > self._pause_ends:
                self._let_go()
        self._let_go()
        tree = Assembler(seen, plan, findings.found, nodes.keep).build(known)
        torn = tuple(sorted(findings.torn))
        parent, ref = self._parent, self._job.parent
        is_new = parent is None or (bool(tree.root.size) and not _same_root(parent.root, tree))
        if is_new:
            whole = Tree(tree, known, nodes.frames(), nodes.lists)
            ref = self._publish(seen, whole, torn, at_ms)
        if self._job.cache is not None and (plan.works or is_new):
            save_memo(memo_file(self._job.cache), self._memo)
            remember_saved(
                self._job.cache, self._key(seen, ref), SavedTree(seen, plan, tree, known)
            )
        return Saved(
            ref=ref,
            is_new=is_new,
            torn=torn,
            skipped=seen.skipped,
            stored_bytes=self._packing.stored_bytes,
            read_bytes=self._read_bytes,
        )

    def _let_go(self) -> None:
        """Say that user code may go on."""
        if not self._is_let_go:
            self._is_let_go = True
            self._watcher.scanned()

    def _gather(self, seen: Scan, plan: Plan, total_bytes: int) -> Iterator[Batch]:
        """Read all that the plan wants, in order."""
        folders = OpenFolders(self._job.root)
        shared = Shared(folders, seen, self._index, {}, self._packing.add)
        try:
            if total_bytes > ALONE_BYTES:
                yield from self._gather_together(plan, shared)
                return
            alone = Gatherer(shared)
            for items in make_batches(plan.wanted):
                self._bridge.check()
                yield alone.gather(items)
        finally:
            folders.close()

    def _gather_together(self, plan: Plan, shared: Shared) -> Iterator[Batch]:
        """Read by several threads: small files by this one alone, while others compress what it has read.

        Two that read small files wake each other at every call, for the interpreter: that costs more than it wins.
        """
        reader, count = Gatherer(shared), min(THREADS_MAX, os.cpu_count() or 1)
        idle = deque((Gatherer(shared), Codec()) for _ in range(count))

        def work(items: list[Item], read: Batch | None) -> Batch:
            self._bridge.check()
            gatherer, codec = tools = idle.popleft()
            try:
                if read is None:
                    return gatherer.gather(items)
                seal(read.loose, codec, shared.keep)
                return read
            finally:
                idle.append(tools)

        under_way: deque[Future[Batch]] = deque()
        with ThreadPoolExecutor(count, thread_name_prefix="gather") as pool:
            try:
                for items in make_batches(plan.wanted):
                    self._bridge.check()
                    is_small = len(items) >= SMALL_FILES
                    read = reader.gather(items, leave_loose=True) if is_small else None
                    under_way.append(pool.submit(work, items, read))
                    if len(under_way) > count:
                        yield under_way.popleft().result()
                while under_way:
                    yield under_way.popleft().result()
            finally:
                for future in under_way:
                    future.cancel()

    def _publish(self, seen: Scan, tree: Tree, torn: tuple[bytes, ...], at_ms: int) -> SnapshotRef:
        """Store the nodes and the body; return the snapshot."""
        job, parent, stored = self._job, self._parent, self._stored
        basis = Basis((), self._index, None)
        if parent is not None and stored is not None:
            basis = Basis(stored.packs(parent), self._index, parent.index)
        snapshot = Snapshot(
            version=VERSION,
            session=job.session,
            tenant=job.tenant,
            root=make_root(tree.made.root, seen.mtime_ns),
            parent=job.parent.id if job.parent else None,
            lineage=job.parent.lineage + 1 if job.parent else 1,
            epoch=job.epoch,
            at_ms=at_ms,
            position=job.position,
            task=job.task,
            entries=seen.entries,
            content_bytes=seen.data_bytes,
            torn=cut_torn(torn),
            excludes=job.excludes,
            hot=next_hot(
                parent.hot if parent else (),
                tree.made.changed if parent else (),
                [join(one.path, name) for one in seen.folders for name in one.accessed],
            ),
        )
        return publish(snapshot, tree, basis, self._packing, self._bridge)


def _same_root(before: Entry, tree: Assembled) -> bool:
    """Return whether two trees are equal."""
    return (before.content, before.lengths) == (tree.root.content, tree.root.lengths)
