"""Reads a batch of what changed, cuts it into chunks, and packs those that are new into frames. Runs in a thread."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from typing import Final

from checkpointer.adapters.engine.batches import Batch, Item, Loose, Read, Shared
from checkpointer.adapters.files.read import (
    Outcome,
    Reading,
    Source,
    read_as_seen,
    read_file,
    read_folder_attributes,
    read_link,
)
from checkpointer.core import chunks
from checkpointer.core.assemble import Found, make_entry
from checkpointer.core.bounds import FRAME_RAW_BYTES
from checkpointer.core.chunks import FIXED_BYTES, WHOLE_BYTES_MAX, WINDOW_BYTES, Rule
from checkpointer.core.content import Content, Piece
from checkpointer.core.entries import CHUNKS, INLINE_BYTES_MAX, WHOLE, ZERO_ID
from checkpointer.core.frames import DATA, Codec
from checkpointer.core.ids import make_id
from checkpointer.core.index import Index
from checkpointer.core.listings import Stat
from checkpointer.core.plan import Wanted

_ZEROS: Final = bytes(1024 * 1024)
_LOOK_BYTES: Final = 64


class Gatherer:
    """One thread's tools. All gatherers of a save share what they have stored, so that each chunk is stored once."""

    def __init__(self, shared: Shared) -> None:
        """Begin with nothing read."""
        self._folders = shared.folders
        self._scan = shared.scan
        self._known: Index | frozenset[bytes] = shared.parent or frozenset()
        self._claims = shared.claims
        self._keep = shared.keep
        self._codec = Codec()
        self._loose: list[Loose] = []
        self._leaves_loose = False
        self._chunks: list[bytes | memoryview] = []
        self._ids: list[bytes] = []
        self._raw_bytes = 0
        self._data_bytes = 0
        self._item: Item
        self._rule = Rule(WHOLE)

    def gather(self, items: list[Item], *, leave_loose: bool = False) -> Batch:
        """Read all items.

        Args:
            items: what to read.
            leave_loose: leave it to `seal` to compress what is new.

        Raises:
            LimitExceeded: one is too large in some way; names it.
            Damaged: a frame does not unpack to what went in.
            ServiceError: an earlier pack was not stored.
        """
        self._loose, self._data_bytes = [], 0
        self._leaves_loose = leave_loose
        reads: list[Read] = []
        settled: dict[bytes, Found] = {}
        for item in items:
            wanted = item.wanted
            found = self._read_as_seen(wanted) if is_plain(wanted.stat) else None
            if found is None:
                reads.append(self._read(item))
            else:
                settled[wanted.path] = found
        self._seal()
        return Batch(reads, settled, self._loose, self._data_bytes)

    def _read_as_seen(self, wanted: Wanted) -> Found | None:
        """Read a small file, unless there is more to it than its bytes."""
        seen = wanted.stat
        folder, _, name = wanted.path.rpartition(b"/")
        try:
            at = self._folders.get(folder)
        except OSError:
            return None
        data = read_as_seen(at, name, seen, self._scan.device)
        if data is None:
            return None
        size = len(data)
        self._data_bytes += size
        if size <= INLINE_BYTES_MAX:
            content = Content(size, data)
        else:
            content = Content(size, self._store(data, size), b"", CHUNKS, WHOLE)
        return Found(make_entry(name, seen, self._scan, content), is_settled=True)

    def _read(self, item: Item) -> Read:
        wanted = item.wanted
        kind = stat.S_IFMT(wanted.stat.mode)
        if kind == stat.S_IFREG:
            return self._read_file(item)
        if kind == stat.S_IFLNK:
            target = read_link(self._folders, wanted.path)
            if target is None:
                return Read(item, Outcome.GONE)
            return Read(item, Outcome.READ, wanted.stat, Content(len(target), target))
        attributes = read_folder_attributes(self._folders, wanted.path)
        return Read(item, Outcome.READ, wanted.stat, attributes=attributes)

    def _read_file(self, item: Item) -> Read:
        self._item = item
        reading = self._attempt(item.wanted.path)
        for path in item.wanted.others:
            if reading.outcome is not Outcome.GONE:
                break
            reading = self._attempt(path)
        value = reading.value
        if isinstance(value, Content):
            return Read(
                item, reading.outcome, reading.stat, value, None, value.cut, reading.attributes
            )
        return Read(
            item, reading.outcome, reading.stat, None, value, self._rule.cut, reading.attributes
        )

    def _attempt(self, path: bytes) -> Reading[Content | list[Piece]]:
        """Read the item's file by one of its names. Of several names each must still be the file that was seen."""
        seen = self._item.wanted.stat
        reading: Reading[Content | list[Piece]] = read_file(
            self._folders, path, self._consume, seen
        )
        if seen.link and reading.stat is not None and reading.stat.inode != seen.inode:
            return Reading(Outcome.GONE)
        return reading

    def _consume(self, source: Source) -> Content | list[Piece]:
        """Make chunks of an open file's content."""
        item, size = self._item, source.size
        if item.end is None and size <= WHOLE_BYTES_MAX:
            data = source.read(0, size)
            self._data_bytes += size
            if size <= INLINE_BYTES_MAX:
                return Content(size, data)
            return Content(size, self._store(data, size), b"", CHUNKS, WHOLE)
        head = source.read(0, min(size, chunks.MAGIC_BYTES))
        self._rule = chunks.choose(size, head, item.wanted.before.cut)
        end = size if item.end is None else min(item.end, size)
        pieces = list(_joined(self._pieces(source, item.begin, end)))
        if item.end is None and len(pieces) == 1 and pieces[0][1] == size:
            return Content(size, pieces[0][0], b"", CHUNKS, self._rule.cut)
        return pieces

    def _pieces(self, source: Source, begin: int, end: int) -> Iterator[Piece]:
        """Yield the chunks of a part of a file, holes as zeros, and store those that are new."""
        at = begin
        for first, last in source.extents():
            start = max(at, first - first % FIXED_BYTES)
            stop = min(end, last + -last % FIXED_BYTES)
            if stop <= start:
                continue
            if start > at:
                yield ZERO_ID, start - at
            at = stop
            self._data_bytes += stop - start
            rule = self._rule
            if rule.cut == WHOLE:  # it has become small since the scan
                data = source.read(start, stop - start)
                yield self._store(data, len(data)), len(data)
                continue
            windows = (
                source.read(place, min(WINDOW_BYTES, stop - place))
                for place in range(start, stop, WINDOW_BYTES)
            )
            for chunk in self._codec.cutter.pieces(rule, windows):
                yield self._store(chunk, len(chunk)), len(chunk)
        if end > at:
            yield ZERO_ID, end - at

    def _store(self, chunk: bytes | memoryview, size: int) -> bytes:
        """Return the id of a chunk; take it into the open frame if nobody has stored it, or will."""
        if not chunk[0] and _is_zero(chunk):
            return ZERO_ID
        one = make_id(chunk)
        if one in self._known or self._claims.setdefault(one, one) is not one:
            return one
        if self._raw_bytes and self._raw_bytes + size > FRAME_RAW_BYTES:
            self._seal()
        self._chunks.append(chunk)
        self._ids.append(one)
        self._raw_bytes += size
        return one

    def _seal(self) -> None:
        """Close the open frame."""
        if not self._chunks:
            return
        if self._leaves_loose:
            self._loose.append(Loose(self._chunks, self._ids))
        else:
            self._keep(self._codec.seal(DATA, self._chunks, self._ids))
        self._chunks, self._ids, self._raw_bytes = [], [], 0


def is_plain(about: Stat) -> bool:
    """Return whether this is a file that is one chunk, by one name."""
    return (
        about.size <= WHOLE_BYTES_MAX and not about.link and stat.S_IFMT(about.mode) == stat.S_IFREG
    )


def _is_zero(chunk: bytes | memoryview) -> bool:
    """Return whether a chunk holds zeros alone."""
    step = len(_ZEROS)
    if chunk[:_LOOK_BYTES] != _ZEROS[: min(len(chunk), _LOOK_BYTES)]:
        return False
    return all(
        bytes(chunk[at : at + step]) == _ZEROS[: min(step, len(chunk) - at)]
        for at in range(0, len(chunk), step)
    )


def _joined(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """Yield the pieces, runs of zeros as one."""
    zeros = 0
    for piece in pieces:
        if piece[0] == ZERO_ID:
            zeros += piece[1]
            continue
        if zeros:
            yield ZERO_ID, zeros
            zeros = 0
        yield piece
    if zeros:
        yield ZERO_ID, zeros
