"""Where files are cut into chunks.

Small files are one chunk. Larger ones are cut where their content says, so that text which moved is found again;
databases every 16 KiB, so that a changed page costs little more than itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
from pyfastcdc import FastCDC

from checkpointer.core.bounds import FRAME_RAW_BYTES_MAX
from checkpointer.core.entries import BY_CONTENT, CHANGING, FIXED, WHOLE, Entry

WHOLE_BYTES_MAX: Final = 32 * 1024
"""A file up to this size is one chunk."""
FIXED_BYTES: Final = 16 * 1024
AVERAGE_BYTES: Final = 32 * 1024
AVERAGE_BYTES_MAX: Final = 1024 * 1024
LARGE_BYTES: Final = 256 * 1024 * 1024
"""Above this size a file is cut into larger chunks: about 16,384 of them, until it is seen to change in place."""
LARGE_CHUNKS: Final = 16_384
IN_PLACE_BYTES_MIN: Final = 1024 * 1024
"""A smaller file is cut by content however it changes: little is won by fixed cuts, and the first ones store it anew."""
WINDOW_BYTES: Final = 4 * 1024 * 1024
"""A file is read and cut in pieces of so many bytes; a chunk never ends at a piece's end for that reason alone."""
SQLITE_MAGIC: Final = b"SQLite format 3\0"
MAGIC_BYTES: Final = len(SQLITE_MAGIC)


class Rule(msgspec.Struct, frozen=True):
    """How one file is cut."""

    cut: int
    """`WHOLE`, `BY_CONTENT` or `FIXED`."""
    average_bytes: int = 0
    """Of `BY_CONTENT`: the average; chunks have a quarter of it to eight times as much."""


def choose(size: int, head: bytes, before: int = WHOLE) -> Rule:
    """Return how a file is to be cut.

    Args:
        size: its bytes.
        head: its first `MAGIC_BYTES` bytes.
        before: `Entry.cut` of what the parent snapshot holds under this name.
    """
    if size <= WHOLE_BYTES_MAX:
        return Rule(WHOLE)
    if head == SQLITE_MAGIC or before in {CHANGING, FIXED}:
        return Rule(FIXED)
    return Rule(BY_CONTENT, average_of(size))


def note_change(rule: Rule, before: Entry, size: int, content: bytes) -> int:
    """Return `Entry.cut` of a file that was cut by `rule`: one that changes in place is cut every 16 KiB from the next
    time on. Not at once: it would have to be read twice, and one changed only by its mode would be stored anew.

    Args:
        rule: how it was cut.
        before: what the parent snapshot holds under this name.
        size: its bytes.
        content: `Entry.content` to be.
    """
    in_place = (
        rule.cut == BY_CONTENT == before.cut
        and before.size == size >= IN_PLACE_BYTES_MIN
        and before.content != content
    )
    return CHANGING if in_place else rule.cut


def average_of(size: int) -> int:
    """Return the average chunk of a file of this size: a power of two, so that growing by a little changes nothing."""
    if size <= LARGE_BYTES:
        return AVERAGE_BYTES
    wanted = max(AVERAGE_BYTES, min(AVERAGE_BYTES_MAX, size // LARGE_CHUNKS))
    return 1 << (wanted.bit_length() - 1)


class Cutter:
    """Cuts buffers by content. Not for two threads at once."""

    def __init__(self) -> None:
        """Make a cutter."""
        self._by_average: dict[int, FastCDC] = {}

    def cut(self, buffer: bytes | memoryview, average_bytes: int) -> Iterator[int]:
        """Yield the lengths of the chunks of `buffer`, all of it: the last one may be shorter than its rule says."""
        cutter = self._by_average.get(average_bytes)
        if cutter is None:
            cutter = self._by_average[average_bytes] = FastCDC(
                average_bytes,
                min_size=average_bytes // 4,
                max_size=min(average_bytes * 8, FRAME_RAW_BYTES_MAX),
            )
        for chunk in cutter.cut_buf(buffer):
            yield chunk.length

    def pieces(self, rule: Rule, windows: Iterator[bytes]) -> Iterator[memoryview]:
        """Yield the chunks of a file that is read window by window.

        What is left of a window after its last sure cut goes before the next one.

        Args:
            rule: not `WHOLE`.
            windows: its bytes in order; each but the last a multiple of `FIXED_BYTES`.
        """
        carried = b""
        for window in windows:
            if rule.cut == FIXED:
                view = memoryview(window)
                for at in range(0, len(view), FIXED_BYTES):
                    yield view[at : at + FIXED_BYTES]
                continue
            joined = carried + window if carried else window
            view, at = memoryview(joined), 0
            for length in list(self.cut(joined, rule.average_bytes))[:-1]:
                yield view[at : at + length]
                at += length
            carried = bytes(view[at:])
        if carried:
            view, at = memoryview(carried), 0
            for length in self.cut(carried, rule.average_bytes):
                yield view[at : at + length]
                at += length
