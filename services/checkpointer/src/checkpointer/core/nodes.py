"""Nodes of directories and lists on their way into a pack: cut where they are large, each chunk stored once."""

from __future__ import annotations

from checkpointer.core.bounds import FRAME_RAW_BYTES
from checkpointer.core.chunks import AVERAGE_BYTES
from checkpointer.core.content import Content, Piece, describe
from checkpointer.core.entries import BY_CONTENT, CHUNKS, Id
from checkpointer.core.frames import META, Codec, Frame
from checkpointer.core.ids import make_id
from checkpointer.core.index import Index


class NodeWriter:
    """Collects the nodes of one save into frames of their own."""

    def __init__(self, parent: Index, codec: Codec) -> None:
        """Begin with none.

        Args:
            parent: what the parent snapshot holds: known, not stored again.
            codec: cuts and compresses.
        """
        self._parent = parent
        self._codec = codec
        self._frames: list[Frame] = []
        self._chunks: list[bytes | memoryview] = []
        self._ids: list[Id] = []
        self._raw_bytes = 0
        self._mine: set[Id] = set()
        self.lists: dict[Id, bytes] = {}
        """List nodes that are new."""

    def keep(self, node: bytes) -> Content:
        """Take a directory's node; return what its entry says of it."""
        if len(node) <= FRAME_RAW_BYTES:
            return Content(len(node), self.keep_chunk(node), b"", CHUNKS)
        pieces: list[Piece] = []
        view, at = memoryview(node), 0
        for length in self._codec.cutter.cut(node, AVERAGE_BYTES):
            pieces.append((self.keep_chunk(view[at : at + length]), length))
            at += length
        return describe(pieces, BY_CONTENT, self.keep_list)

    def keep_list(self, node: bytes) -> Id:
        """Take a list node, unless it is known; return its id."""
        one = self.keep_chunk(node)
        if one in self._mine:
            self.lists[one] = node
        return one

    def keep_chunk(self, chunk: bytes | memoryview) -> Id:
        """Take a chunk, unless it is known; return its id."""
        one = make_id(chunk)
        if one in self._mine or one in self._parent:
            return one
        self._mine.add(one)
        if self._raw_bytes and self._raw_bytes + len(chunk) > FRAME_RAW_BYTES:
            self._seal()
        self._chunks.append(chunk)
        self._ids.append(one)
        self._raw_bytes += len(chunk)
        return one

    def frames(self) -> list[Frame]:
        """Return all frames, the last one closed."""
        self._seal()
        return self._frames

    def _seal(self) -> None:
        if self._chunks:
            self._frames.append(self._codec.seal(META, self._chunks, self._ids))
            self._chunks, self._ids, self._raw_bytes = [], [], 0
