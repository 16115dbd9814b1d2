"""Reading a stored tree: nodes by their ids, from frames that are fetched many at a time and checked chunk by chunk."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from checkpointer.adapters.engine.threads import Bridge
from checkpointer.core.bounds import NODE_BYTES_MAX
from checkpointer.core.content import expand
from checkpointer.core.entries import ZERO_ID, Entry, Id, decode_node, show
from checkpointer.core.frames import META, Codec
from checkpointer.core.ids import make_id
from checkpointer.core.index import FrameInfo, Index, Place
from shared.errors import Damaged, LimitExceeded

READ_BYTES_MAX: Final = 8 * 1024 * 1024
"""Stored bytes of neighbouring frames that are read at once."""
KEPT_BYTES: Final = 32 * 1024 * 1024
"""Unpacked frames that are kept."""


class ChunkReader:
    """Chunks of one snapshot, one by one. For one thread."""

    def __init__(self, index: Index, bridge: Bridge) -> None:
        """Read where the index says."""
        self._index = index
        self._bridge = bridge
        self._codec = Codec()
        self._frames: OrderedDict[int, bytes | memoryview] = OrderedDict()
        self._kept_bytes = 0

    def chunk(self, one: Id, where: str) -> memoryview:
        """Return a chunk, its hash checked.

        Args:
            one: its id.
            where: what it belongs to, for an error's text.

        Raises:
            Damaged: it is nowhere, or not what was written; names what it belongs to, and its pack.
            NotFound: its pack is not there.
            LimitExceeded, Unavailable: likewise.
        """
        place = self._index.find(one)
        if place is None:
            raise Damaged(f"{where}: no pack of its snapshot holds chunk {one.hex()[:12]}")
        raw = self._frames.get(place.frame)
        if raw is None:
            raw = self._fetch(place.frame)
        else:
            self._frames.move_to_end(place.frame)
        return cut_chunk(raw, place, one, f"{where}: in pack {self._pack_of(place.frame)}")

    def _pack_of(self, frame: int) -> str:
        return self._index.packs[self._index.frame(frame).pack].key

    def _fetch(self, number: int) -> bytes | memoryview:
        """Read a frame; of nodes, also those that lie behind it in the pack: whoever reads one reads more."""
        wanted = self._index.frame(number)
        run = [wanted]
        end = wanted.offset + wanted.stored_bytes
        if wanted.kind == META:
            following = number + 1
            while following < self._index.frames:
                info = self._index.frame(following)
                end = info.offset + info.stored_bytes
                if info.pack != wanted.pack or info.kind != META:
                    break
                if end - wanted.offset > READ_BYTES_MAX:
                    break
                run.append(info)
                following += 1
        return self._read(number, run)

    def _read(self, number: int, run: list[FrameInfo]) -> bytes | memoryview:
        """Read neighbouring frames, the first one's number given; return the first one."""
        pack = self._index.packs[run[0].pack].key
        start, end = run[0].offset, run[-1].offset + run[-1].stored_bytes
        data = memoryview(self._bridge.get(pack, start, end - start))
        for at, info in reversed(list(enumerate(run, start=number))):
            stored = data[info.offset - start :][: info.stored_bytes]
            raw = self._codec.unpack(stored, info.raw_bytes, f"{pack} at {info.offset}")
            if at not in self._frames:
                self._kept_bytes += len(raw)
            self._frames[at] = raw
        first = self._frames[number]
        while self._kept_bytes > KEPT_BYTES and len(self._frames) > 1:
            self._kept_bytes -= len(self._frames.popitem(last=False)[1])
        return first


def cut_chunk(raw: bytes | memoryview, place: Place, one: Id, where: str) -> memoryview:
    """Return a chunk of an unpacked frame, its hash checked.

    Raises:
        Damaged: it is not what was written.
    """
    chunk = memoryview(raw)[place.at : place.at + place.length]
    if make_id(chunk) != one:
        raise Damaged(f"{where}: chunk {one.hex()[:12]} has another hash")
    return chunk


class TreeReader:
    """The tree of one snapshot."""

    def __init__(self, chunks: ChunkReader) -> None:
        """Read its chunks by these."""
        self._chunks = chunks

    def node(self, entry: Entry, path: bytes) -> bytes:
        """Return a directory's node, all of its chunks checked.

        Args:
            entry: the directory's.
            path: for an error's text.

        Raises:
            ServiceError: see `ChunkReader.chunk`.
        """
        where = show(path) or "the root"
        if entry.size > NODE_BYTES_MAX:
            raise LimitExceeded(
                f"{where}: its node has {entry.size} bytes, at most {NODE_BYTES_MAX} are read"
            )
        pieces = expand(entry, lambda one: self._chunks.chunk(one, where), where)
        parts = [self._chunks.chunk(one, where) for one, _ in pieces]
        node = b"".join(parts)
        if len(node) != entry.size:
            raise Damaged(f"{where}: its node has {len(node)} bytes, {entry.size} promised")
        return node

    def entries(self, entry: Entry, path: bytes) -> list[Entry]:
        """Return a directory's entries; see `node`."""
        return decode_node(self.node(entry, path), show(path) or "the root")

    def content(self, entry: Entry, path: bytes, offset: int, length: int) -> bytes:
        """Return a part of a file's content.

        Raises:
            ServiceError: see `ChunkReader.chunk`.
        """
        end = min(offset + length, entry.size)
        if not entry.form:
            return entry.content[offset:end]
        where, at, parts = show(path), 0, list[bytes | memoryview]()
        for one, size in expand(entry, lambda one: self._chunks.chunk(one, where), where):
            first, last = max(offset, at), min(end, at + size)
            if first < last:
                if one == ZERO_ID:
                    parts.append(bytes(last - first))
                else:
                    parts.append(self._chunks.chunk(one, where)[first - at : last - at])
            at += size
            if at >= end:
                break
        return b"".join(parts)
