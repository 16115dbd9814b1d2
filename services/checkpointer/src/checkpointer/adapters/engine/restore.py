"""A restore, in a thread of its own: directories first, then what is needed first, then the rest pack by pack."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from checkpointer.adapters.engine.filling import Filled, Filler, count_writers
from checkpointer.adapters.engine.nodes import ChunkReader, TreeReader
from checkpointer.adapters.engine.remember import RestoredTree, memo_file, remember_restored
from checkpointer.adapters.engine.stored import StoredSnapshot, load_memo, save_memo
from checkpointer.adapters.engine.threads import Bridge
from checkpointer.adapters.files.restore import TreeWriter
from checkpointer.adapters.files.room import check_empty, check_room
from checkpointer.core.bounds import ID_BYTES
from checkpointer.core.entries import DIRECTORY, FILE, INLINE, Entry, decode_node, encode_node, show
from checkpointer.core.hot import choose_hot
from checkpointer.core.index import Index
from checkpointer.core.scans import FileOwner
from checkpointer.core.snapshot import Snapshot, keys_of
from checkpointer.core.trees import Directory, join, walk
from shared.errors import Damaged
from shared.workspace import SnapshotRef


class RestoreJob(msgspec.Struct, frozen=True, kw_only=True):
    """What to restore."""

    root: int
    """Descriptor of the workspace's directory, which is empty; stays the caller's."""
    ref: SnapshotRef
    cache: Path | None = None
    """Like `SaveJob.cache`: the next save reads only what changed since this restore."""
    owner: FileOwner | None = None
    """Whose the files are to be; None: the root's owner's."""


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """What a restore came to."""

    snapshot: Snapshot
    entries: int
    content_bytes: int
    fetched_bytes: int
    metadata_refused: int
    kept: int
    """Entries that gave way to what user code had put there."""


class Follower(msgspec.Struct):
    """Whom a restore tells how far it is; called in its thread."""

    gate_open: Callable[[], None] = lambda: None
    """What is needed first is there: user code may begin."""
    moved: Callable[[int, int, int, int], None] = lambda _done, _of, _entries, _of_entries: None
    """Bytes and entries done, and of how many."""


def restore(job: RestoreJob, bridge: Bridge, follower: Follower) -> Restored:
    """Write a snapshot into an empty directory.

    Raises:
        Conflict: the directory is not empty.
        Damaged: something is not what was stored; names the path and the pack. What was written until then stays.
        NotFound: a pack is not there.
        LimitExceeded: the disk has no room, or the snapshot passes a bound.
        Unavailable: the store or the disk.
    """
    check_empty(job.root)
    memo = load_memo(memo_file(job.cache), bridge.store.id)
    stored = StoredSnapshot(job.ref, bridge, memo)
    snapshot = stored.body()
    check_room(job.root, snapshot.entries, snapshot.content_bytes)
    index = stored.index(snapshot)
    writer = TreeWriter(job.root, job.owner)
    try:
        one = _Restore(writer, index, bridge, follower)
        one.run(snapshot)
    finally:
        writer.close()
    if job.cache is not None:
        memo.forget_but(job.ref.id, keys_of(snapshot, job.ref))
        save_memo(memo_file(job.cache), memo)
        restored = RestoredTree(snapshot, job.ref, one.nodes, job.owner)
        remember_restored(job.cache, job.root, bridge.store.id, restored)
    return Restored(
        snapshot=snapshot,
        entries=one.entries,
        content_bytes=writer.tally.content_bytes,
        fetched_bytes=one.fetched_bytes,
        metadata_refused=writer.tally.metadata_refused,
        kept=writer.tally.kept,
    )


class _Restore:
    """One restore's state."""

    def __init__(
        self, writer: TreeWriter, index: Index, bridge: Bridge, follower: Follower
    ) -> None:
        self._writer = writer
        self._index = index
        self._bridge = bridge
        self._follower = follower
        self._directories: list[Directory] = []
        self.nodes: dict[bytes, bytes] = {}
        """Path -> node of each directory."""
        self._files: list[Filled] = []
        self._lock = threading.Lock()
        self.entries = 0
        self._done_bytes = self._done_entries = self._total_bytes = 0
        self.fetched_bytes = 0

    def run(self, snapshot: Snapshot) -> None:
        """Do it."""
        self._read_tree(snapshot)
        self._make_folders()
        hot = choose_hot(((one.path, one.entry.size) for one in self._files), snapshot.hot)
        self._files.sort(key=self._first_place)
        writers = count_writers(len(self._files), self._total_bytes)
        filler = Filler(self._writer, self._index, self._bridge, self._moved, writers)
        try:
            filler.fill([one for one in self._files if one.path in hot])
            self._writer.open_gate()
            self._follower.gate_open()
            filler.fill([one for one in self._files if one.path not in hot])
        finally:
            filler.close()
            self.fetched_bytes = filler.fetched_bytes
        self._check_all()
        for directory in reversed(self._directories):
            self._writer.finish_folder(directory.path, directory.entry)

    def _first_place(self, one: Filled) -> tuple[int, int]:
        """Return where a file's first chunk lies; what needs none comes first."""
        entry = one.entry
        place = None if entry.form == INLINE else self._index.find(entry.content[:ID_BYTES])
        return (-1, 0) if place is None else (place.frame, place.at)

    def _read_tree(self, snapshot: Snapshot) -> None:
        """Read all directories, and list the files."""
        reader = TreeReader(ChunkReader(self._index, self._bridge))
        links: dict[int, Filled] = {}

        def fetch(entry: Entry, path: bytes) -> list[Entry]:
            node = self.nodes[path] = reader.node(entry, path)
            return decode_node(node, show(path) or "the root")

        for directory in walk(snapshot.root, fetch):
            self._bridge.check()
            self._directories.append(directory)
            self.entries += len(directory.entries)
            for entry in directory.entries:
                if entry.kind != FILE:
                    continue
                first = links.get(entry.link_group) if entry.link_group else None
                if first is not None:
                    first.links.append((directory.path, entry.name))
                    continue
                one = Filled(directory.path, entry)
                self._files.append(one)
                self._total_bytes += entry.size
                if entry.link_group:
                    links[entry.link_group] = one

    def _make_folders(self) -> None:
        """Make all directories, links, pipes and sockets."""
        for directory in self._directories:
            if directory.path:
                self._writer.make_folder(directory.path, directory.entry)
            for entry in directory.entries:
                if entry.kind not in {FILE, DIRECTORY}:
                    self._writer.make_leaf(directory.path, entry)

    def _moved(self, content_bytes: int, entries: int) -> None:
        """Count a finished file. From any thread."""
        with self._lock:
            self._done_bytes += content_bytes
            self._done_entries += entries
        self._follower.moved(self._done_bytes, self._total_bytes, self._done_entries, self.entries)

    def _check_all(self) -> None:
        """Build each node from what was written, and compare it with the one that the root's id vouches for.

        Raises:
            Damaged: something is missing.
        """
        written: dict[bytes, set[bytes]] = {}
        for one in self._files:
            if one.done:
                for folder, name in ((one.folder, one.entry.name), *one.links):
                    written.setdefault(folder, set()).add(name)
        for path, _, entries in self._directories:
            here = written.get(path, set())
            made = [entry for entry in entries if entry.kind != FILE or entry.name in here]
            if encode_node(made) != self.nodes[path]:
                missing = next((e.name for e in entries if e not in made), b"")
                raise Damaged(f"{show(join(path, missing))}: it was not restored")
