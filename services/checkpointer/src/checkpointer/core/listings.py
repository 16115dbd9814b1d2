"""What a scan saw of one directory: a name and a signature for each entry, in a form that compares as a whole.

A file whose signature is the one that the last snapshot was taken with has the same bytes, with one exception: a clock
that ticks is too coarse to tell two writes apart that follow each other at once. So an entry that changed shortly before
it was looked at is *racy*: it is kept in the cache with a signature that nothing equals, and read again the next time.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

RACY_NS: Final = 20_000_000
"""A change within so many nanoseconds before the scan may be followed by another one of the same time: kernels stamp
files by a clock that ticks every 1 to 10 ms."""
RACY_COARSE_NS: Final = 1_020_000_000
"""The same for a stamp of whole seconds, from a file system that knows no others."""
SECOND_NS: Final = 1_000_000_000

TIME_NS_MAX: Final = (1 << 63) - 1
"""Later (and, negative, earlier) stamps are cut: a file system may know the year 2400, a 64-bit number does not."""
_NEVER: Final = -(1 << 63)

RECORD: Final = struct.Struct("<QqqqQIII")
"""One entry: the fields of `Stat` in their order."""
_TIME: Final = struct.Struct("<q")
_CHANGE_AT: Final = 24
_LINK: Final = struct.Struct("<Q")
_LINK_AT: Final = 32


class Stat(NamedTuple):
    """The signature of one entry."""

    inode: int
    size: int
    """Bytes; 0 for a directory."""
    mtime_ns: int
    ctime_ns: int
    """Of the last change of content or metadata: what user code can't set."""
    link: int
    """Files with the same number (not 0) are one file with several names in this tree."""
    mode: int
    """Type and permission bits."""
    uid: int
    gid: int

    def is_same_file(self, other: Stat) -> bool:
        """Return whether both are of one file with the same content and metadata, whatever its names."""
        link = _LINK_FIELD
        return self[:link] == other[:link] and self[link + 1 :] == other[link + 1 :]


_LINK_FIELD: Final = Stat._fields.index("link")


class Listing(NamedTuple):
    """The entries of one directory, in the order in which it lists them."""

    names: bytes
    """Joined by NUL bytes."""
    records: bytes
    """A `RECORD` each."""

    def entries(self) -> Iterator[tuple[bytes, Stat]]:
        """Yield each name and its signature."""
        if self.records:
            stats = map(Stat._make, RECORD.iter_unpack(self.records))
            yield from zip(self.names.split(b"\0"), stats, strict=True)

    def sorted(self) -> list[tuple[bytes, Stat]]:
        """Return the entries sorted by name."""
        return sorted(self.entries())

    def unsettle(self, names: Iterable[bytes]) -> Listing:
        """Return the listing with signatures that nothing equals for these names: they are looked at again next time."""
        wanted = set(names)
        if not wanted:
            return self
        records = bytearray(self.records)
        for number, name in enumerate(self.names.split(b"\0")):
            if name in wanted:
                _TIME.pack_into(records, number * RECORD.size + _CHANGE_AT, _NEVER)
        return Listing(self.names, bytes(records))

    def settled_in(self, newer: Listing) -> set[bytes]:
        """Return the names whose entries have the same signature in a newer listing of the directory."""
        before = dict(self._rows())
        return {name for name, record in newer._rows() if before.get(name) == record}

    def _rows(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield each name and its record as it is."""
        records, size = self.records, RECORD.size
        if records:
            cut = [records[at : at + size] for at in range(0, len(records), size)]
            yield from zip(self.names.split(b"\0"), cut, strict=True)

    def link(self, numbers: dict[int, int]) -> Listing:
        """Return the listing with `Stat.link` set: position in the listing -> number."""
        records = bytearray(self.records)
        for position, number in numbers.items():
            _LINK.pack_into(records, position * RECORD.size + _LINK_AT, number)
        return Listing(self.names, bytes(records))


UNLIKE_ANY: Final = Listing(b"\0", b"")
"""Equals no directory's, not even an empty one's, and has no entries."""


def clip_time(time_ns: int) -> int:
    """Return a stamp that a record can hold."""
    return max(-TIME_NS_MAX, min(TIME_NS_MAX, time_ns))


def is_racy(ctime_ns: int, looked_ns: int) -> bool:
    """Return whether a change after `looked_ns` might leave this stamp as it is.

    Args:
        ctime_ns: the entry's.
        looked_ns: the time just before it was looked at, by the clock that stamps are made from.
    """
    if ctime_ns % SECOND_NS:
        return ctime_ns > looked_ns - RACY_NS
    return ctime_ns > looked_ns - RACY_COARSE_NS
