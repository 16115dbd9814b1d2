"""The last part of a save: packs on their way to the store, and the body that names them all."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from checkpointer.adapters.engine.merging import Merger
from checkpointer.adapters.engine.nodes import ChunkReader, TreeReader
from checkpointer.adapters.engine.stored import Memo
from checkpointer.adapters.engine.threads import Bridge, Uploads
from checkpointer.adapters.files.cache import CachedFolder
from checkpointer.core.assemble import Assembled
from checkpointer.core.content import Content
from checkpointer.core.entries import DIRECTORY, Entry, Id, decode_node, show
from checkpointer.core.frames import BODY, Codec, Frame
from checkpointer.core.index import Index
from checkpointer.core.merge import is_due
from checkpointer.core.packs import Contents, PackBuilder, PackInfo, read_contents
from checkpointer.core.snapshot import IndexInfo, Snapshot, encode_snapshot, keys_of
from checkpointer.core.trees import walk
from shared.workspace import SnapshotRef


class Packing:
    """Frames into packs, packs to the store. Frames come from any thread."""

    def __init__(self, bridge: Bridge, memo: Memo, owner: tuple[str, str]) -> None:
        """Begin with none.

        Args:
            bridge: where they go.
            memo: remembers what is in them.
            owner: tenant and session.
        """
        self.codec = Codec()
        """Of the save's own thread."""
        self._bridge = bridge
        self._memo = memo
        self._uploads = Uploads(bridge, *owner)
        self._lock = threading.Lock()
        self._sealer = Codec()
        self._pack = PackBuilder()
        self._sealed: list[tuple[int, bytes]] = []
        """Size and tail of each."""

    @property
    def count(self) -> int:
        """Packs so far, the open one left out."""
        return len(self._sealed)

    @property
    def stored_bytes(self) -> int:
        """Sent off."""
        return self._uploads.stored_bytes

    def add(self, frame: Frame) -> None:
        """Put a frame into the open pack; send the pack off when it is full, which waits while too much is under way.

        Raises:
            ServiceError: an earlier pack was not stored.
        """
        with self._lock:
            self._pack.add(frame)
            if self._pack.size >= self._bridge.store.pack_bytes:
                self._send()

    def send(self, last: Frame) -> None:
        """Send the open pack off, this frame added to it."""
        with self._lock:
            self._pack.add(last)
            self._send()

    def _send(self) -> None:
        data, tail_bytes = self._pack.seal(self._sealer)
        self._sealed.append((len(data), data[len(data) - tail_bytes :]))
        self._pack = PackBuilder()
        self._uploads.put(data)

    def infos(self) -> list[PackInfo]:
        """Wait for all that were sent; return and remember them.

        Raises:
            ServiceError: one was not stored.
        """
        infos = []
        for key, (size, tail) in zip(self._uploads.keys(), self._sealed, strict=True):
            self._memo.tails[key], self._memo.sizes[key] = tail, size
            infos.append(PackInfo(key, size, len(tail)))
        return infos

    def contents(self, info: PackInfo) -> Contents:
        """Return what is in a pack that was sent."""
        return read_contents(self._memo.tails[info.key], info.size, self.codec, info.key)

    def remember(self, ref: SnapshotRef, snapshot: Snapshot, body: bytes) -> None:
        """Remember what the next save on this node needs, and nothing else."""
        self._memo.bodies[ref.id] = body
        self._memo.forget_but(ref.id, keys_of(snapshot, ref))

    def store_index(self, index: Index, owner: tuple[str, str]) -> IndexInfo:
        """Store an index object of all packs that it knows.

        Raises:
            ServiceError: it was not stored.
        """
        data, one = index.encode(self.codec)
        uploads = Uploads(self._bridge, *owner)
        uploads.put(data)
        key = uploads.keys()[0]
        self._memo.indexes[key] = data
        return IndexInfo(key, len(data), one, len(index.packs))

    def abandon(self) -> None:
        """Give up what is under way."""
        self._uploads.abandon()

    def take_back(self) -> None:
        """Remove what was stored."""
        self._uploads.take_back()


class Tree(NamedTuple):
    """A new tree and where its nodes are."""

    made: Assembled
    known: Mapping[bytes, CachedFolder]
    """Path -> what the parent snapshot holds of a directory, where that is cached."""
    frames: list[Frame]
    """The new nodes."""
    lists: dict[Id, bytes]
    """New list nodes."""

    def entries(self, stored: TreeReader) -> Iterator[Entry]:
        """Yield all entries, the root's too.

        Args:
            stored: reads nodes that are neither new nor cached: of directories that could not be opened.

        Raises:
            ServiceError: a node could not be read.
        """

        def fetch(entry: Entry, path: bytes) -> list[Entry]:
            node = self.made.nodes.get(path)
            if node is None and path in self.known:
                node = self.known[path].node
            if node is None:
                node = stored.node(entry, path)
            return decode_node(node, show(path))

        root = make_root(self.made.root, 0)
        yield root
        for directory in walk(root, fetch):
            yield from directory.entries


class Basis(NamedTuple):
    """What a new snapshot builds on."""

    packs: tuple[PackInfo, ...]
    """All of the parent's."""
    where: Index
    """Where its chunks lie."""
    stored: IndexInfo | None
    """Its index object."""


def make_root(content: Content, mtime_ns: int) -> Entry:
    """Return the root's entry: owner and mode of that directory are the node's."""
    return Entry(
        b"", DIRECTORY, 0, 0, 0, mtime_ns, content.size, content.content, content.lengths, content.form, content.cut
    )  # fmt: skip


def publish(
    snapshot: Snapshot, tree: Tree, basis: Basis, packing: Packing, bridge: Bridge
) -> SnapshotRef:
    """Store a tree's nodes and the body of its snapshot; return its reference.

    Args:
        snapshot: all but its packs.
        tree: what it holds.
        basis: what it builds on.
        packing: has what is new of the content already.
        bridge: for what is written anew.

    Raises:
        ServiceError: something could not be stored.
    """
    owner = (snapshot.tenant, snapshot.session)
    packs, stored = basis.packs, basis.stored
    index = None
    covered = stored.covers if stored else 0
    if is_due(len(packs) + packing.count + 1, covered):
        merger = Merger(basis.where, tree.lists, bridge)
        merged = merger.look(tree.entries(TreeReader(ChunkReader(basis.where, bridge))))
        _add_all(packing, merger.frames(merged, packing.codec))
        index = basis.where.without(merged.rewritten)
        packs = tuple(index.packs)
    _add_all(packing, tree.frames)
    new = packing.infos()
    if index is not None:
        for info in new:
            index.add(info, packing.contents(info))
        stored = packing.store_index(index, owner)
    snapshot = msgspec.structs.replace(snapshot, packs=(*packs, *new), index=stored)
    body, one = encode_snapshot(snapshot)
    packing.send(packing.codec.seal(BODY, [body], [one]))
    own = packing.infos()[-1]
    ref = SnapshotRef(
        id=one.hex(),
        pack=own.key,
        at_ms=snapshot.at_ms,
        entries=snapshot.entries,
        bytes=snapshot.content_bytes,
        lineage=snapshot.lineage,
    )
    packing.remember(ref, snapshot, body)
    return ref


def _add_all(packing: Packing, frames: Iterable[Frame]) -> None:
    for frame in frames:
        packing.add(frame)
