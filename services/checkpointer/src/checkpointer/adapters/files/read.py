"""Reading what changed: content that is one moment's, or the word that there is none.

User code may write, truncate, replace or remove a file while it is read. Its status before and after tells; for a file
that has changed since the scan its dirty pages are written first, so that a write through a mapping shows, too.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Final, Generic, NamedTuple, TypeVar

from checkpointer.adapters.files import linux
from checkpointer.adapters.files.attributes import Attributes, read_attributes
from checkpointer.adapters.files.folders import OpenFolders
from checkpointer.adapters.files.scan import SKIPS
from checkpointer.core.listings import Stat, clip_time
from checkpointer.core.scans import GONE, MOUNT, UNREADABLE
from shared.errors import LimitExceeded

T = TypeVar("T")

ATTEMPTS: Final = 3
HOLE_BYTES_MIN: Final = 64 * 1024
"""Shorter holes are read as the zeros that they are."""
_BLOCK_BYTES: Final = 512

# Never waits: for a writer of a pipe that took the file's place, for a terminal, for whoever holds a lease.
_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_LINK: Final = getattr(os, "O_PATH", 0)
_AS_SEEN: Final = _FLAGS | linux.NOATIME | os.O_NOFOLLOW | os.O_CLOEXEC


class Outcome(Enum):
    """What became of a read."""

    READ = "read"
    """Its content is one moment's."""
    TORN = "torn"
    """It changed during each attempt, or could not be opened for who else uses it."""
    GONE = GONE
    """There is no such file any more, or something else by its name."""
    UNREADABLE = UNREADABLE
    """Its owner lets nobody read it, or the disk can't."""
    MOUNT = MOUNT
    """Something is mounted in its place."""


class Reading(NamedTuple, Generic[T]):
    """A file that was read, or not."""

    outcome: Outcome
    stat: Stat | None = None
    """What its entry says. `READ` and mostly `TORN`; `link` is 0."""
    value: T | None = None
    """What `consume` made of it; of `TORN` the last attempt's, if there was one."""
    attributes: Attributes = ()


class ShortRead(Exception):
    """The file ended before its size: it was cut meanwhile. Caught by `read_file`."""


class BadRead(Exception):
    """The disk can't read it. Caught by `read_file`."""


class Source:
    """An open file during one attempt."""

    def __init__(self, fd: int, about: os.stat_result) -> None:
        """Keep what is known of it.

        Args:
            fd: its descriptor.
            about: its status.
        """
        self._fd = fd
        self.size = about.st_size
        self._is_sparse = about.st_blocks * _BLOCK_BYTES < about.st_size

    def read(self, offset: int, length: int) -> bytes:
        """Return exactly so many bytes.

        Raises:
            ShortRead: the file is shorter by now.
            BadRead: the disk failed.
        """
        parts: list[bytes] = []
        missing = length
        while missing:
            try:
                data = os.pread(self._fd, missing, offset + length - missing)
            except OSError as exc:
                raise BadRead from exc
            if not data:
                raise ShortRead
            if len(data) == length:
                return data
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)

    def extents(self) -> Iterator[tuple[int, int]]:
        """Yield begin and end of each run of data in order; between them are holes of `HOLE_BYTES_MIN` or more."""
        if not self._is_sparse:
            if self.size:
                yield 0, self.size
            return
        begin = end = 0
        for start, stop in self._runs():
            if start - end >= HOLE_BYTES_MIN:
                if end > begin:
                    yield begin, end
                begin = start
            end = stop
        if self.size - end < HOLE_BYTES_MIN:
            end = self.size
        if end > begin:
            yield begin, end

    def _runs(self) -> Iterator[tuple[int, int]]:
        """Yield the runs of data as the file system has them."""
        at = 0
        while at < self.size:
            try:
                start = os.lseek(self._fd, at, os.SEEK_DATA)
                stop = min(os.lseek(self._fd, start, os.SEEK_HOLE), self.size)
            except OSError as error:
                if error.errno == errno.ENXIO:  # the rest is a hole
                    return
                raise BadRead from error
            if stop <= start:  # cut meanwhile
                raise ShortRead
            yield start, stop
            at = stop


def read_file(
    folders: OpenFolders, path: bytes, consume: Callable[[Source], T], seen: Stat | None = None
) -> Reading[T]:
    """Read a file; once more, and once again, if it changes meanwhile.

    Args:
        folders: of the workspace.
        path: from its root.
        consume: makes something of the content, up to `ATTEMPTS` times; what it made of a torn one is dropped or is the
            `value` of a `TORN` reading. Reads through `Source` alone.
        seen: its signature at the scan.

    Raises:
        LimitExceeded: too large by its extended attributes, or what `consume` raised.
    """
    last: Reading[T] = Reading(Outcome.TORN)
    for _ in range(ATTEMPTS):
        try:
            fd = _open(folders, path)
        except OSError as error:
            outcome = _outcome(error)
            if outcome is Outcome.TORN:
                continue
            return Reading(outcome)
        try:
            reading = _attempt(fd, path, consume, seen)
        except BadRead:
            return Reading(Outcome.UNREADABLE)
        except ShortRead:
            continue
        finally:
            os.close(fd)
        if reading.outcome is not Outcome.TORN:
            return reading
        last = reading
    return last


def read_as_seen(at: int, name: bytes, seen: Stat, device: int) -> bytes | None:
    """Return a small file's content in the fewest calls, if it is what the scan saw, and has no attributes.

    The scan's look is the one before the read: whatever changed the file since then, or changes it meanwhile, shows in the
    one after it.

    Args:
        at: descriptor of its directory.
        name: as the scan found it there.
        seen: its signature at the scan; of a file with one name.
        device: the workspace's: what was mounted over the name since then lies on another one.

    Returns:
        All its bytes; None: there is more to it, see `read_file`.
    """
    try:
        # One name, which leads nowhere else: a plain open costs two thirds of one that resolves a path with care.
        fd = os.open(name, _AS_SEEN, dir_fd=at)
    except OSError:
        return None
    try:
        data = os.pread(fd, seen.size, 0)
        if read_attributes(fd, name):
            return None
        about = os.fstat(fd)
    except (OSError, LimitExceeded):
        return None
    finally:
        os.close(fd)
    inode, size, mtime_ns, ctime_ns, _, mode, uid, gid = seen
    is_same = (
        about.st_ctime_ns == ctime_ns
        and about.st_mtime_ns == mtime_ns
        and about[:3] == (mode, inode, device)
        and about[4:7] == (uid, gid, size)
        and len(data) == size
    )
    return data if is_same else None


def _attempt(fd: int, path: bytes, consume: Callable[[Source], T], seen: Stat | None) -> Reading[T]:
    """Read an open file once."""
    about = os.fstat(fd)
    if not stat.S_ISREG(about.st_mode):
        return Reading(Outcome.GONE)
    before = to_stat(about)
    if seen is not None and not before.is_same_file(seen):
        linux.write_back(fd)
        about = os.fstat(fd)
        before = to_stat(about)
    value = consume(Source(fd, about))
    try:
        attributes = read_attributes(fd, path)
    except OSError as exc:
        raise BadRead from exc
    after = os.fstat(fd)
    calm = after.st_ctime_ns == about.st_ctime_ns and after.st_mtime_ns == about.st_mtime_ns
    calm = calm and after.st_size == about.st_size
    return Reading(Outcome.READ if calm else Outcome.TORN, before, value, attributes)


def _open(folders: OpenFolders, path: bytes) -> int:
    """Open a file for reading, without a trace in its access time where that is allowed."""
    folder, _, name = path.rpartition(b"/")
    at = folders.get(folder)
    try:
        return linux.open_beneath(at, name, _FLAGS | linux.NOATIME)
    except PermissionError:
        return linux.open_beneath(at, name, _FLAGS)


def _outcome(error: OSError) -> Outcome:
    """Return what an error of open(2) says of the file."""
    if isinstance(error, BlockingIOError):
        return Outcome.TORN  # someone holds a lease on it
    reason = SKIPS.get(error.errno or 0)
    return Outcome(reason) if reason else Outcome.UNREADABLE


def to_stat(about: os.stat_result) -> Stat:
    """Return the signature in a file's status."""
    mode, inode, _, _, uid, gid, size, _, _, _ = about
    mtime_ns = clip_time(about.st_mtime_ns)
    if stat.S_ISDIR(mode):
        size = 0
    return Stat(inode, size, mtime_ns, about.st_ctime_ns, 0, mode, uid, gid)


def read_link(folders: OpenFolders, path: bytes) -> bytes | None:
    """Return the target of a symbolic link; None: there is none by that name any more."""
    folder, _, name = path.rpartition(b"/")
    try:
        fd = linux.open_beneath(folders.get(folder), name, _LINK)
    except OSError:
        return None
    try:
        return os.readlink(b"", dir_fd=fd)
    except OSError:  # it is no link
        return None
    finally:
        os.close(fd)


def read_folder_attributes(folders: OpenFolders, path: bytes) -> Attributes:
    """Return the extended attributes of a directory; none where it is one no more.

    Raises:
        LimitExceeded: too many bytes.
    """
    with contextlib.suppress(OSError):
        return read_attributes(folders.get(path), path)
    return ()
