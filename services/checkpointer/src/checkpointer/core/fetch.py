"""In which order a restore reads: files by where their first chunk lies, frames pack by pack, gaps that are cheap to skip
read along.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from checkpointer.core.content import Piece
from checkpointer.core.entries import ZERO_ID, Id, show
from checkpointer.core.index import FrameInfo, Index
from shared.errors import Damaged

GAP_BYTES_MAX: Final = 128 * 1024
"""Bytes between two wanted frames that are read along: another request costs more."""
RANGE_BYTES_MAX: Final = 4 * 1024 * 1024
"""One request."""
TARGETS_MAX: Final = 65_536
"""Chunks that are planned at once."""
OPEN_MAX: Final = 256
"""Files of several chunks that are planned at once: so many are open."""


class Target(NamedTuple):
    """A place that a chunk goes to."""

    at: int
    """Offset in the frame's raw bytes."""
    length: int
    chunk: Id
    file: int
    """Number of the file in its group."""
    offset: int
    """In the file."""


class Wanted(NamedTuple):
    """A frame, and what of it is needed."""

    number: int
    info: FrameInfo
    targets: list[Target]


class Range(msgspec.Struct, frozen=True, gc=False):
    """One request, and what its answer holds."""

    pack: int
    start: int
    length: int
    frames: list[Wanted]


class Part(NamedTuple):
    """A file, or a run of its chunks."""

    file: int
    path: bytes
    offset: int
    """Of its first chunk in the file."""
    pieces: Iterable[Piece]


def make_ranges(parts: Iterable[Part], index: Index) -> list[Range]:
    """Return what to read for these files.

    Args:
        parts: what is wanted.
        index: where it lies.

    Raises:
        Damaged: a chunk is nowhere, or another size; names the path.
    """
    frames: dict[int, list[Target]] = {}
    for part in parts:
        offset = part.offset
        for one, length in part.pieces:
            if one != ZERO_ID:
                place = index.find(one)
                if place is None or place.length != length:
                    raise Damaged(
                        f"{show(part.path)}: no pack of its snapshot holds chunk {one.hex()[:12]}"
                    )
                target = Target(place.at, length, one, part.file, offset)
                frames.setdefault(place.frame, []).append(target)
            offset += length
    wanted = [Wanted(number, index.frame(number), targets) for number, targets in frames.items()]
    wanted.sort(key=lambda one: (one.info.pack, one.info.offset))
    return list(_merge(wanted))


def _merge(wanted: list[Wanted]) -> Iterator[Range]:
    """Yield requests for frames that are sorted by pack and offset."""
    run: list[Wanted] = []
    for one in wanted:
        if run and not _fits(run, one.info):
            yield _range(run)
            run = []
        run.append(one)
    if run:
        yield _range(run)


def _fits(run: list[Wanted], info: FrameInfo) -> bool:
    """Return whether one request may bring this frame as well."""
    first, last = run[0].info, run[-1].info
    gap = info.offset - last.offset - last.stored_bytes
    whole = info.offset + info.stored_bytes - first.offset
    return first.pack == info.pack and gap <= GAP_BYTES_MAX and whole <= RANGE_BYTES_MAX


def _range(run: list[Wanted]) -> Range:
    first, last = run[0].info, run[-1].info
    return Range(first.pack, first.offset, last.offset + last.stored_bytes - first.offset, run)
