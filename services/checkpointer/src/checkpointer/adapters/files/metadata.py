"""What a restored entry is besides its content: owner, mode, times, attributes. None of it is worth failing for."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from checkpointer.adapters.files.attributes import write_attributes
from checkpointer.core.entries import MODE_KEPT, Entry
from checkpointer.core.scans import FileOwner

OWNER_ALL: Final = 0o700
_STATUS: Final = Path("/proc/self/status")


class Dresser:
    """Sets metadata and counts what is refused. Each method returns that number."""

    def __init__(self, root: int, owner: FileOwner | None = None) -> None:
        """Learn who owns the workspace.

        Args:
            root: descriptor of its directory.
            owner: who will own all that is made in it; None: who owns the root.
        """
        about = os.fstat(root)
        self._uid, self._gid = owner or (about.st_uid, about.st_gid)
        # What this process makes there has the right owner already; a directory with the set-group bit gives its group on.
        made_by_us = (os.geteuid(), about.st_gid if about.st_mode & stat.S_ISGID else os.getegid())
        self._is_owner = made_by_us == (self._uid, self._gid)
        self._mask = _umask()

    def mode_to_create(self, entry: Entry) -> int:
        """Return the mode to create a file with: the final one, if attributes can be set all the same."""
        return 0o600 if entry.xattrs else entry.mode & 0o777

    def dress_file(self, fd: int, entry: Entry) -> int:
        """Finish an open file that was created with `mode_to_create`."""
        refused = write_attributes(fd, entry.xattrs) if entry.xattrs else 0
        wanted = entry.mode & MODE_KEPT
        if not self._is_owner:
            refused += self._own(fd)
        if self.mode_to_create(entry) & ~self._mask != wanted:
            refused += _set_mode(fd, wanted)
        return refused + _set_times(fd, entry.mtime_ns)

    def dress_new_folder(self, fd: int, entry: Entry) -> int:
        """Give a new directory to its owner, open to be filled."""
        refused = 0 if self._is_owner else self._own(fd)
        wanted = entry.mode & MODE_KEPT | OWNER_ALL
        return refused if OWNER_ALL & ~self._mask == wanted else refused + _set_mode(fd, wanted)

    def dress_full_folder(self, fd: int, entry: Entry, *, is_root: bool) -> int:
        """Finish a directory when nothing will be made in it any more. The root keeps its mode: it is the node's."""
        refused = write_attributes(fd, entry.xattrs) if entry.xattrs else 0
        wanted = entry.mode & MODE_KEPT
        if wanted & OWNER_ALL != OWNER_ALL and not is_root:
            refused += _set_mode(fd, wanted)
        return refused + _set_times(fd, entry.mtime_ns)

    def dress_link(self, folder: int, entry: Entry) -> int:
        """Finish a symbolic link; it is never followed."""
        try:
            if not self._is_owner:
                os.chown(entry.name, self._uid, self._gid, dir_fd=folder, follow_symlinks=False)
            times = (entry.mtime_ns, entry.mtime_ns)
            os.utime(entry.name, ns=times, dir_fd=folder, follow_symlinks=False)
        except OSError:
            return 1
        return 0

    def dress_special(self, fd: int, entry: Entry) -> int:
        """Finish a named pipe or socket, given by an `O_PATH` descriptor: opening it would wait, or fail."""
        place = f"/proc/self/fd/{fd}"
        refused = 0
        try:
            if not self._is_owner:
                os.chown(place, self._uid, self._gid)
            Path(place).chmod(entry.mode & MODE_KEPT)
            os.utime(place, ns=(entry.mtime_ns, entry.mtime_ns))
        except OSError:
            refused = 1
        return refused

    def _own(self, fd: int) -> int:
        try:
            os.fchown(fd, self._uid, self._gid)
        except OSError:
            return 1
        return 0


def _set_mode(fd: int, mode: int) -> int:
    try:
        os.fchmod(fd, mode)
    except OSError:
        return 1
    return 0


def _set_times(fd: int, mtime_ns: int) -> int:
    try:
        os.utime(fd, ns=(mtime_ns, mtime_ns))
    except (OSError, OverflowError):
        return 1
    return 0


def _umask() -> int:
    """Return what the process's mask takes from the mode of a new file; all, where it is not known."""
    try:
        lines = _STATUS.read_text(encoding="ascii", errors="replace").splitlines()
        return next(int(line.split()[1], 8) for line in lines if line.startswith("Umask:"))
    except (OSError, StopIteration, ValueError):
        return 0o777
