"""What a save's threads pass to one another: what to read, what became of it, what is still to be compressed."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from checkpointer.adapters.files.folders import OpenFolders
from checkpointer.adapters.files.read import Outcome
from checkpointer.core.assemble import Found
from checkpointer.core.content import Content, Piece
from checkpointer.core.entries import WHOLE
from checkpointer.core.frames import DATA, Codec, Frame
from checkpointer.core.index import Index
from checkpointer.core.listings import Stat
from checkpointer.core.plan import Wanted
from checkpointer.core.scans import Scan

BATCH_BYTES: Final = 4 * 1024 * 1024
"""Content that one thread reads at a time."""
FILE_COST_BYTES: Final = 4096
"""What opening a file counts for in a batch."""
SEGMENT_BYTES: Final = 32 * 1024 * 1024
"""A larger file is read in parts of so many bytes, so that several threads work on it."""

Attributes = tuple[tuple[bytes, bytes], ...]


class Item(NamedTuple):
    """One thing for a batch: all of something, or a part of a large file."""

    wanted: Wanted
    begin: int = 0
    end: int | None = None
    """None: to its end, wherever that is."""


class Read(NamedTuple):
    """What became of an item."""

    item: Item
    outcome: Outcome
    stat: Stat | None = None
    content: Content | None = None
    """Of all of something with few chunks."""
    pieces: list[Piece] | None = None
    """Of a part, or of a file with many chunks."""
    cut: int = WHOLE
    attributes: Attributes = ()


class Loose(NamedTuple):
    """What a frame is to hold, before it is compressed."""

    chunks: list[bytes | memoryview]
    ids: list[bytes]


class Batch(NamedTuple):
    """What a thread returns."""

    reads: list[Read]
    settled: dict[bytes, Found]
    """Path -> small files that are as the scan saw them."""
    loose: list[Loose]
    data_bytes: int
    """Read."""

    @property
    def done(self) -> int:
        """How many items it was."""
        return len(self.reads) + len(self.settled)


def seal(loose: list[Loose], codec: Codec, keep: Callable[[Frame], None]) -> None:
    """Compress what was left loose, and give it away.

    Raises:
        Damaged: a frame does not unpack to what went in.
        ServiceError: what `keep` raises.
    """
    while loose:
        chunks, ids = loose.pop(0)
        keep(codec.seal(DATA, chunks, ids))


class Shared(NamedTuple):
    """What all gatherers of a save work with."""

    folders: OpenFolders
    """Of the workspace."""
    scan: Scan
    """What was seen."""
    parent: Index
    """What the parent snapshot holds: known, not stored again."""
    claims: dict[bytes, bytes]
    """Chunk -> the copy of its id that the gatherer has made who stores it."""
    keep: Callable[[Frame], None]
    """Takes new frames, from any thread."""


def make_batches(wanted: list[Wanted]) -> Iterator[list[Item]]:
    """Yield what is wanted in pieces of about `BATCH_BYTES`, a large file in parts."""
    batch: list[Item] = []
    cost = 0
    for one in wanted:
        size = one.stat.size if stat.S_ISREG(one.stat.mode) else 0
        if size > 2 * SEGMENT_BYTES:
            for begin in range(0, size, SEGMENT_BYTES):
                yield [Item(one, begin, begin + SEGMENT_BYTES)]
            continue
        batch.append(Item(one))
        cost += size + FILE_COST_BYTES
        if cost >= BATCH_BYTES:
            yield batch
            batch, cost = [], 0
    if batch:
        yield batch
