"""One look at a whole workspace: what is there, by names and signatures. No file is opened.

The tree may change meanwhile, in any way that its owner likes: what vanishes is left out, what is no directory any more is
not entered. Each directory is opened from the root's descriptor, so that nothing leads out.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Iterable
from hashlib import blake2b
from itertools import islice
from typing import Final, NamedTuple

from checkpointer.adapters.files import linux
from checkpointer.adapters.files.folders import OpenFolders
from checkpointer.core.entries import show
from checkpointer.core.listings import (
    RACY_COARSE_NS,
    RECORD,
    TIME_NS_MAX,
    Listing,
    clip_time,
    is_racy,
)
from checkpointer.core.scans import GONE, MOUNT, UNREADABLE, Folder, Look, Scan
from shared import limits
from shared.errors import LimitExceeded, Unavailable

_TYPE: Final = 0o170000
_BLOCK_BYTES: Final = 512
_SAVED: Final = {stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK, stat.S_IFIFO, stat.S_IFSOCK}
_LOST_AND_FOUND: Final = "lost+found"
_NAME_BYTES_MAX: Final = 255
SKIPS: Final = {
    errno.ENOENT: GONE,
    errno.ENOTDIR: GONE,
    errno.ELOOP: GONE,
    errno.ESTALE: GONE,
    errno.EACCES: UNREADABLE,
    errno.EPERM: UNREADABLE,
    errno.EXDEV: MOUNT,
}
"""Why something that was listed can't be looked at; any other error is the disk's or ours."""


Progress = Callable[[int, int], None]
"""Called after each directory with entries and data bytes so far. What it raises ends the scan."""


def scan(root: int, look: Look, progress: Progress = lambda _entries, _bytes: None) -> Scan:
    """Look at all that lies below a directory.

    Args:
        root: its descriptor.
        look: how.
        progress: where the caller gives up, if it does.

    Raises:
        LimitExceeded: names the path and the limit.
        Unavailable: the disk failed.
    """
    try:
        if look.sync:
            linux.sync_filesystem(root)
        scanner = _Scanner(root, look)
        try:
            scanner.walk(progress)
        finally:
            scanner.close()
    except OSError as exc:
        raise Unavailable(f"workspace: {exc.strerror or exc}") from exc
    scanner.number_links()
    return scanner.result


class _Scanner:
    """The walk: directories that wait, and what was found."""

    def __init__(self, root: int, look: Look) -> None:
        self._folders = OpenFolders(root)
        self._look = look
        self._tracks = linux.tracks_mapped_writes(root)
        self._linked: dict[int, list[_Place]] = {}
        self._path_bytes = 0
        about = os.fstat(root)
        uid, gid = look.owner or (about.st_uid, about.st_gid)
        self.result = Scan(
            started_ns=time.time_ns(),
            device=about.st_dev,
            inode=about.st_ino,
            mode=about.st_mode,
            uid=uid,
            gid=gid,
            mtime_ns=clip_time(about.st_mtime_ns),
        )

    def close(self) -> None:
        """Close what is open."""
        self._folders.close()

    def walk(self, progress: Progress) -> None:
        """List one directory after the other, depth first."""
        result = self.result
        waiting = [b""]
        while waiting:
            path = waiting.pop()
            try:
                with os.scandir(self._folders.get(path)) as entries:
                    below = self._list(
                        path, islice(entries, limits.WORKSPACE_FOLDER_ENTRIES_MAX + 1)
                    )
            except OSError as error:
                self._skip(path, error)
                continue
            waiting.extend(reversed(below))
            progress(result.entries, result.data_bytes)

    def _list(self, path: bytes, entries: Iterable[os.DirEntry[str]]) -> list[bytes]:
        """List one directory; return the paths of those in it."""
        device, started_ns = self.result.device, self.result.started_ns
        recent_ns = started_ns - RACY_COARSE_NS
        excluded = self._look.excludes.match if self._look.excludes else None
        names, records, below = list[str](), list[bytes](), list[str]()
        racy, accessed = list[str](), list[str]()
        data_bytes, pack = 0, RECORD.pack
        for entry in entries:
            name = entry.name
            try:
                about = entry.stat(follow_symlinks=False)
            except OSError as error:
                self._skip(_join(path, name), error)
                continue
            mode, inode, its_device, links, uid, gid, size, _, _, _ = about
            kind = mode & _TYPE
            if its_device != device or kind not in _SAVED:
                self._leave_out(_join(path, name), is_mount=its_device != device)
                continue
            if excluded is not None and excluded(path, os.fsencode(name)):
                self.result.excluded += 1
                continue
            if kind == stat.S_IFREG:
                data_bytes += min(size, about.st_blocks * _BLOCK_BYTES)
                if size > limits.WORKSPACE_FILE_BYTES_MAX:
                    _check_size(_join(path, name), about)
                if links > 1:
                    place = _Place(len(self.result.folders), len(names), name)
                    self._linked.setdefault(inode, []).append(place)
                if about.st_atime_ns > about.st_ctime_ns:
                    accessed.append(name)
            elif kind == stat.S_IFDIR:
                if not path and name == _LOST_AND_FOUND and uid == 0:
                    continue  # the file system's own
                below.append(name)
                size = 0
            mtime_ns, ctime_ns = about.st_mtime_ns, about.st_ctime_ns
            if not -TIME_NS_MAX <= mtime_ns <= TIME_NS_MAX:
                mtime_ns = clip_time(mtime_ns)
            if ctime_ns > recent_ns and is_racy(ctime_ns, started_ns):
                racy.append(name)
            names.append(name)
            records.append(pack(inode, size, mtime_ns, ctime_ns, 0, mode, uid, gid))
        self.result.data_bytes += data_bytes
        unsettled = racy if self._tracks else names
        listing = Listing(os.fsencode("\0".join(names)), b"".join(records))
        self._keep(Folder(path, listing, _encoded(unsettled), _encoded(accessed)), len(names))
        _check_paths(path, names, below)
        return [_join(path, name) for name in below]

    def _keep(self, folder: Folder, count: int) -> None:
        """Take one directory into the result.

        Raises:
            LimitExceeded: it has too many entries, or all together have.
        """
        result = self.result
        result.folders.append(folder)
        result.entries += count
        if count > limits.WORKSPACE_FOLDER_ENTRIES_MAX:
            most = limits.WORKSPACE_FOLDER_ENTRIES_MAX
            raise LimitExceeded(f"{_show(folder.path)}: a directory of more than {most} entries")
        if result.entries + len(result.skipped) > limits.WORKSPACE_ENTRIES_MAX:
            most = limits.WORKSPACE_ENTRIES_MAX
            raise LimitExceeded(f"{_show(folder.path)}: the workspace has more than {most} entries")
        self._path_bytes += len(folder.listing.names) + count * (len(folder.path) + 1)
        if self._path_bytes > limits.WORKSPACE_PATHS_BYTES_MAX:
            most = limits.WORKSPACE_PATHS_BYTES_MAX
            raise LimitExceeded(
                f"{_show(folder.path)}: all paths together have more than {most} bytes"
            )
        if result.data_bytes > limits.WORKSPACE_BYTES_MAX:
            most = limits.WORKSPACE_BYTES_MAX
            raise LimitExceeded(f"{_show(folder.path)}: the workspace has more than {most} bytes")

    def _leave_out(self, path: bytes, *, is_mount: bool) -> None:
        """Count what no snapshot holds."""
        if is_mount:
            self.result.skipped[path] = MOUNT
        else:
            self.result.devices += 1

    def _skip(self, path: bytes, error: OSError) -> None:
        """Note what could not be looked at.

        Raises:
            OSError: it is not the tree's doing, or it is the root.
        """
        reason = SKIPS.get(error.errno or 0)
        if reason is None or not path:
            raise error
        self.result.skipped[path] = reason

    def number_links(self) -> None:
        """Give each file of several names in this tree a number that follows from its first path alone."""
        folders = self.result.folders
        numbers: dict[int, dict[int, int]] = {}
        for places in self._linked.values():
            if len(places) < 2:
                continue
            first = min(_join(folders[one.folder].path, one.name) for one in places)
            digest = blake2b(first, digest_size=8).digest()
            number = int.from_bytes(digest, "big") >> 1 or 1
            for one in places:
                numbers.setdefault(one.folder, {})[one.position] = number
        for at, wanted in numbers.items():
            folders[at] = folders[at]._replace(listing=folders[at].listing.link(wanted))


class _Place(NamedTuple):
    """One name of a file that has several."""

    folder: int
    """Index of its `Folder`."""
    position: int
    """In the folder's listing."""
    name: str


def _join(folder: bytes, name: str) -> bytes:
    return folder + b"/" + os.fsencode(name) if folder else os.fsencode(name)


def _encoded(names: list[str]) -> frozenset[bytes]:
    return frozenset(map(os.fsencode, names))


def _show(path: bytes) -> str:
    """Return a directory's path for people."""
    return show(path) or "the root"


def _check_size(path: bytes, about: os.stat_result) -> None:
    """Refuse a file that is too large; a sparse one may seem larger than it is.

    Raises:
        LimitExceeded: names it.
    """
    data_bytes = min(about.st_size, about.st_blocks * _BLOCK_BYTES)
    for count, most, what in (
        (data_bytes, limits.WORKSPACE_FILE_BYTES_MAX, "bytes"),
        (about.st_size, limits.WORKSPACE_SPARSE_BYTES_MAX, "bytes, holes included"),
    ):
        if count > most:
            raise LimitExceeded(f"{show(path)}: a file of {count} {what}, at most {most}")


def _check_paths(folder: bytes, names: list[str], below: list[str]) -> None:
    """Refuse paths that are too long or too deep.

    Raises:
        LimitExceeded: names the first one.
    """
    most = limits.WORKSPACE_PATH_BYTES_MAX
    if len(folder) + 1 + _NAME_BYTES_MAX > most:
        for name in names:
            path = _join(folder, name)
            if len(path) > most:
                raise LimitExceeded(f"{show(path)}: a path of {len(path)} bytes, at most {most}")
    depth = folder.count(b"/") + 2 if folder else 1
    if below and depth > limits.WORKSPACE_DEPTH_MAX:
        path = _join(folder, below[0])
        most = limits.WORKSPACE_DEPTH_MAX
        raise LimitExceeded(f"{show(path)}: {depth} directories deep, at most {most}")
