"""Brings files' content from the store and writes it: several reads under way, several threads that unpack and write."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Final, NamedTuple

from checkpointer.adapters.engine.nodes import ChunkReader
from checkpointer.adapters.engine.stored import GETS_MAX
from checkpointer.adapters.engine.threads import Bridge
from checkpointer.adapters.files.restore import TreeWriter
from checkpointer.adapters.files.sink import FileSink, Place
from checkpointer.core.content import Piece, expand
from checkpointer.core.entries import CHUNKS, INLINE, ZERO_ID, Entry, show
from checkpointer.core.fetch import OPEN_MAX, TARGETS_MAX, Part, Range, Wanted, make_ranges
from checkpointer.core.frames import Codec
from checkpointer.core.ids import make_id
from checkpointer.core.index import Index
from checkpointer.core.trees import join
from shared.errors import Damaged

WRITERS: Final = 2
SMALL_BYTES: Final = 64 * 1024
"""Of files with fewer bytes on average one thread writes all: two take turns at the interpreter with each call, which costs
a fifth of the processor time and wins little (28,000 files: 1.57 s instead of 1.25 s, done in 1.12 s instead of 1.2 s)."""
WAITING_MAX: Final = 4
"""Answers of the store that wait for a writer."""


def count_writers(files: int, content_bytes: int) -> int:
    """Return how many threads should write so many files with so many bytes together."""
    return 1 if content_bytes < files * SMALL_BYTES else WRITERS


class Filled:
    """One file of a restore."""

    __slots__ = (
        "done", "entry", "folder", "is_one_chunk", "is_plain", "left", "links", "lock", "path", "sink",
    )  # fmt: skip

    def __init__(self, folder: bytes, entry: Entry) -> None:
        """Name it.

        Args:
            folder: path of its directory.
            entry: its own.
        """
        self.folder = folder
        self.entry = entry
        self.path = join(folder, entry.name)
        """From the root."""
        is_one = entry.form == CHUNKS and not entry.lengths
        self.is_plain = entry.form == INLINE or (is_one and entry.content == ZERO_ID)
        """Nothing of it lies in the store."""
        self.is_one_chunk = is_one and not self.is_plain
        self.links: list[Place] = []
        self.done = False
        self.sink: FileSink | None = None
        self.left = 1
        """Chunks to be written, and one until all of them are planned."""
        self.lock = threading.Lock()


class _Asked(NamedTuple):
    """A request under way."""

    range: Range
    group: list[Filled]
    answer: Future[bytes]


class _UnderWay(NamedTuple):
    """What one `Filler.fill` waits for."""

    asked: deque[_Asked]
    writing: deque[Future[None]]


class Filler:
    """Writes files. For one thread, which waits until all is done."""

    def __init__(
        self,
        writer: TreeWriter,
        index: Index,
        bridge: Bridge,
        moved: Callable[[int, int], None],
        writers: int = WRITERS,
    ) -> None:
        """Keep what is needed.

        Args:
            writer: makes the files.
            index: where their chunks lie.
            bridge: brings them.
            moved: told the bytes of each finished file, and 1 + its links; from any thread.
            writers: threads; see `count_writers`.
        """
        self._writer = writer
        self._index = index
        self._bridge = bridge
        self._moved = moved
        self._lists = ChunkReader(index, bridge)
        self._codecs = deque(Codec() for _ in range(writers))
        self._pool = ThreadPoolExecutor(writers, thread_name_prefix="restore")
        self._open: set[Filled] = set()
        self.fetched_bytes = 0

    def close(self) -> None:
        """End the threads; drop what is half written."""
        self._pool.shutdown(cancel_futures=True)
        while self._open:
            sink = self._open.pop().sink
            if sink is not None:
                sink.__exit__(BrokenOff, BrokenOff(), None)

    def fill(self, files: Sequence[Filled]) -> None:
        """Write all of these, and return when that is done.

        Raises:
            Damaged: a chunk is not what was written; names its path and pack.
            ServiceError: the store's, the disk's.
        """
        under_way = _UnderWay(deque(), deque())
        bridge, packs = self._bridge, self._index.packs
        try:
            for group, ranges in self._groups(files):
                for one in ranges:
                    bridge.take_turn(one.length, lambda: self._finish_one(under_way))
                    call = bridge.store.get(packs[one.pack].key, one.start, one.length)
                    answer = bridge.begin(call, one.length)
                    under_way.asked.append(_Asked(one, group, answer))
                    if len(under_way.asked) >= GETS_MAX:
                        self._finish_one(under_way)
            while self._finish_one(under_way):
                pass
        finally:
            for each in under_way.asked:
                each.answer.cancel()
                bridge.transfers.give_back(each.range.length)

    def _finish_one(self, under_way: _UnderWay) -> bool:
        """Give the oldest answer of the store to a writer, or wait for a writer; return whether there was one."""
        asked, writing = under_way
        if len(writing) >= WAITING_MAX or (writing and not asked):
            writing.popleft().result()
            return True
        if not asked:
            return False
        one = asked.popleft()
        size, give_back = one.range.length, self._bridge.transfers.give_back
        try:
            data = self._bridge.wait(one.answer)
            self.fetched_bytes += len(data)
            written = self._pool.submit(self._write_range, one.range, data, one.group)
        except BaseException:
            give_back(size)
            raise
        written.add_done_callback(lambda _: give_back(size))
        writing.append(written)
        return True

    def _groups(self, files: Sequence[Filled]) -> Iterator[tuple[list[Filled], list[Range]]]:
        """Yield files, as many as are planned at once, and what to read for them."""
        group: list[Filled] = []
        parts: list[Part] = []
        targets = several = 0
        for one in files:
            if one.is_plain:
                self._write_plain(one)
                continue
            if not one.is_one_chunk:
                several += 1
            for offset, pieces in self._pieces(one):
                parts.append(Part(len(group), one.path, offset, pieces))
                group.append(one)
                targets += len(pieces)
                if targets >= TARGETS_MAX or several >= OPEN_MAX:
                    yield group, make_ranges(parts, self._index)
                    group, parts, targets, several = [], [], 0, 0
        if group:
            yield group, make_ranges(parts, self._index)

    def _pieces(self, one: Filled) -> Iterator[tuple[int, list[Piece]]]:
        """Yield a file's chunks in runs, each with its offset, and count them."""
        entry = one.entry
        if one.is_one_chunk:
            yield 0, [(entry.content, entry.size)]
            return
        where, offset = show(one.path), 0
        pieces = expand(entry, lambda each: self._lists.chunk(each, where), where)
        while run := list(islice(pieces, TARGETS_MAX)):
            with one.lock:
                one.left += sum(piece[0] != ZERO_ID for piece in run)
            yield offset, run
            offset += sum(length for _, length in run)
        self._count(one, 1)

    def _write_range(self, one: Range, data: bytes, group: list[Filled]) -> None:
        """Unpack what one request brought, and write it. In a writer's thread."""
        self._bridge.check()
        pack = self._index.packs[one.pack].key
        if len(data) != one.length:
            raise Damaged(f"{pack}: {len(data)} bytes at {one.start}, {one.length} were asked for")
        codec = self._codecs.popleft()
        try:
            view = memoryview(data)
            for frame in one.frames:
                info = frame.info
                stored = view[info.offset - one.start :][: info.stored_bytes]
                raw = codec.unpack(stored, info.raw_bytes, f"{pack} at {info.offset}")
                self._write_targets(memoryview(raw), frame, group, pack)
        finally:
            self._codecs.append(codec)

    def _write_targets(
        self, raw: memoryview, frame: Wanted, group: list[Filled], pack: str
    ) -> None:
        """Write the chunks of a frame to where they belong."""
        for target in frame.targets:
            one = group[target.file]
            chunk = raw[target.at : target.at + target.length]
            if make_id(chunk) != target.chunk:
                what = f"chunk {target.chunk.hex()[:12]}"
                raise Damaged(f"{show(one.path)}: {what} in pack {pack} has another hash")
            if one.is_one_chunk:
                self._writer.write_file(one.folder, one.entry, chunk, one.links)
                self._finish(one)
                continue
            self._sink(one).write(target.offset, chunk)
            self._count(one, 1)

    def _sink(self, one: Filled) -> FileSink:
        """Return an open file; opened by whoever writes to it first."""
        with one.lock:
            if one.sink is None:
                sink = self._writer.open_file(one.folder, one.entry, one.links)
                one.sink = sink.__enter__()
                self._open.add(one)
            return one.sink

    def _count(self, one: Filled, written: int) -> None:
        """Note that chunks of a file are written; complete it after the last one."""
        with one.lock:
            one.left -= written
            if one.left:
                return
        sink = self._sink(one)
        self._open.discard(one)
        sink.__exit__(None, None, None)
        one.sink = None
        self._finish(one)

    def _write_plain(self, one: Filled) -> None:
        """Write a file that needs nothing from the store."""
        data = one.entry.content if one.entry.form == INLINE else b""
        self._writer.write_file(one.folder, one.entry, data, one.links)
        self._finish(one)

    def _finish(self, one: Filled) -> None:
        one.done = True
        self._moved(one.entry.size, 1 + len(one.links))


class BrokenOff(Exception):
    """Why a file is not completed: its restore ended before."""
