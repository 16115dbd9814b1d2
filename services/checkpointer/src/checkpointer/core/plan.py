"""What a save has to do: which directories are as the parent snapshot holds them, and which files are to be read.

Only what the parent snapshot itself holds is reused, nothing else that was ever stored: a collector may have removed that.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, Protocol

import msgspec

from checkpointer.core.entries import (
    DIRECTORY,
    FIFO,
    FILE,
    MODE_KEPT,
    SOCKET,
    SYMLINK,
    Entry,
    decode_node,
    show,
)
from checkpointer.core.listings import Listing, Stat
from checkpointer.core.scans import Folder, Scan
from checkpointer.core.trees import join

KIND_OF: Final = {
    stat.S_IFREG: FILE,
    stat.S_IFDIR: DIRECTORY,
    stat.S_IFLNK: SYMLINK,
    stat.S_IFIFO: FIFO,
    stat.S_IFSOCK: SOCKET,
}
NOTHING: Final = Entry(b"", FILE, 0, 0, 0, 0)
"""What the parent snapshot holds under a name that is new."""


class Known(Protocol):
    """A directory as the parent snapshot was taken from it."""

    @property
    def listing(self) -> Listing:
        """What was seen."""
        ...

    @property
    def node(self) -> bytes:
        """What was stored."""
        ...

    @property
    def restored_ns(self) -> int:
        """Not 0: it was written by a restore that was done then, and `listing` equals nothing."""
        ...


class Wanted(NamedTuple):
    """Something to be read: a file, a link's target, the attributes of a directory."""

    folder: int
    """Index in `Scan.folders`."""
    path: bytes
    stat: Stat
    before: Entry
    """What the parent snapshot holds under this name, or `NOTHING`."""
    others: list[bytes]
    """Paths of the same file by its other names: one of them may go before it is read."""

    @property
    def name(self) -> bytes:
        """The last part of the path."""
        return self.path.rpartition(b"/")[2]


class Work(msgspec.Struct, frozen=True, gc=False):
    """A directory that differs from the cached one."""

    folder: int
    """Index in `Scan.folders`."""
    before: dict[bytes, Entry]
    """What the parent snapshot holds of it."""
    same: set[bytes]
    """Names whose entries are as they were, but for what lies below directories."""


class Plan(msgspec.Struct, frozen=True):
    """What to do with a scan."""

    works: dict[int, Work]
    """By index in `Scan.folders`: those that differ."""
    wanted: list[Wanted]
    """In the order of the tree, so that neighbours share frames. A file of several names once."""


def make_plan(scan: Scan, known: Mapping[bytes, Known]) -> Plan:
    """Return what has to be read so that the parent's snapshot becomes one of this scan.

    Args:
        scan: what is there.
        known: the cached directories by their paths; empty: everything is new.
    """
    works, wanted, linked = dict[int, Work](), list[Wanted](), dict[int, Wanted]()
    for number, folder in enumerate(scan.folders):
        old = known.get(folder.path)
        if old is not None and old.listing == folder.listing:
            continue
        before: dict[bytes, Entry] = {}
        same: set[bytes] = set()
        if old is not None:
            before = {entry.name: entry for entry in decode_node(old.node, show(folder.path))}
            if old.restored_ns:
                same = set(_as_restored(folder, before, scan, old.restored_ns))
            else:
                same = old.listing.settled_in(folder.listing) & before.keys()
        works[number] = Work(number, before, same)
        for item in _read(number, folder, before, same):
            if item.stat.link:
                first = linked.setdefault(item.stat.link, item)
                if first is not item:
                    first.others.append(item.path)
                    continue
            wanted.append(item)
    return Plan(works, wanted)


def _read(
    number: int, folder: Folder, before: dict[bytes, Entry], same: set[bytes]
) -> Iterator[Wanted]:
    """Yield what is to be read in one directory."""
    for name, about in folder.listing.sorted():
        if name not in same and stat.S_IFMT(about.mode) not in {stat.S_IFIFO, stat.S_IFSOCK}:
            path = join(folder.path, name)
            yield Wanted(number, path, about, before.get(name, NOTHING), [])


def _as_restored(
    folder: Folder, before: dict[bytes, Entry], scan: Scan, restored_ns: int
) -> Iterator[bytes]:
    """Yield the names that are as a restore has written them.

    A restored entry has the modification time that was set, until somebody writes to it; whatever else is changed moves
    its change time beyond the end of the restore.
    """
    owner = (scan.uid, scan.gid)
    for name, about in folder.listing.entries():
        entry = before.get(name)
        if entry is None or about.ctime_ns > restored_ns or (about.uid, about.gid) != owner:
            continue
        mode = about.mode
        if (
            about.mtime_ns == entry.mtime_ns
            and (about.size == entry.size or entry.kind == DIRECTORY)
            and KIND_OF[stat.S_IFMT(mode)] == entry.kind
            and stat.S_IMODE(mode) == entry.mode == entry.mode & MODE_KEPT
            and not entry.uid
            and not entry.gid
            and about.link == entry.link_group
        ):
            yield name


def owner_number(number: int, of_root: int) -> int:
    """Return `Entry.uid` or `Entry.gid` for a user or group id, given the one of the workspace's root."""
    return 0 if number == of_root else number + 1
