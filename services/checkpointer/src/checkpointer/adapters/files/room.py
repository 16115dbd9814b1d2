"""A place for a tree: an empty directory, on a disk that is large enough."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import Final

from checkpointer.adapters.files import linux
from checkpointer.adapters.files.folders import OpenFolders
from checkpointer.core.entries import show
from shared import limits
from shared.errors import Conflict, LimitExceeded, Unavailable

_LOST_AND_FOUND: Final = "lost+found"
_OWNER_ALL: Final = 0o700
_STEPS_MAX: Final = 4 * limits.WORKSPACE_ENTRIES_MAX


def check_empty(root: int) -> None:
    """Refuse a directory that holds anything; a file system's own `lost+found` is nothing.

    Raises:
        Conflict: names one of its entries.
    """
    with os.scandir(root) as entries:
        for entry in entries:
            if not _is_foreign(entry):
                name = show(os.fsencode(entry.name))
                raise Conflict(f"the workspace is not empty: it holds {name}")


def check_room(root: int, entries: int, content_bytes: int) -> None:
    """Refuse what surely does not fit. What hardly fits shows while it is written.

    Args:
        root: the directory.
        entries: to be made.
        content_bytes: of all files, without their holes.

    Raises:
        LimitExceeded: says what is needed and what there is.
    """
    disk = os.fstatvfs(root)
    free_bytes = disk.f_bavail * disk.f_frsize
    if content_bytes > free_bytes:
        raise LimitExceeded(f"the workspace needs {content_bytes} bytes, its disk has {free_bytes}")
    if disk.f_files and entries > disk.f_favail:
        raise LimitExceeded(
            f"the workspace has {entries} entries, its disk has room for {disk.f_favail}"
        )


def clear(root: int) -> None:
    """Remove all that is in a directory, for instance what an attempt that was broken off has left there.

    Raises:
        Unavailable: something can't be removed, or somebody makes new things all the time.
    """
    folders = OpenFolders(root)
    try:
        _clear(folders)
    finally:
        folders.close()


def _clear(folders: OpenFolders) -> None:
    """Remove all, the deepest directories first."""
    waiting = [b""]
    for _ in range(_STEPS_MAX):
        if not waiting:
            return
        path = waiting[-1]
        try:
            below = _unlink_files(folders, path)
            if below:
                waiting.extend(below)
                continue
            if path:
                _remove_folder(folders, path)
            waiting.pop()
        except OSError as exc:
            raise Unavailable(f"{show(path) or 'the root'}: {exc.strerror or exc}") from exc
    raise Unavailable("the workspace can not be emptied: somebody fills it")


def _unlink_files(folders: OpenFolders, path: bytes) -> list[bytes]:
    """Remove what is no directory from a directory; return the paths of those that are."""
    prefix = path + b"/" if path else b""
    try:
        fd = _open_for_removal(folders, path)
    except FileNotFoundError:
        return []
    with os.scandir(fd) as listing:
        entries = [one for one in listing if path or not _is_foreign(one)]
    below = []
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            below.append(prefix + os.fsencode(entry.name))
            continue
        with contextlib.suppress(FileNotFoundError):
            os.unlink(entry.name, dir_fd=fd)
    return below


def _open_for_removal(folders: OpenFolders, path: bytes) -> int:
    """Return an open directory, with the owner's rights where its mode has taken them away."""
    with contextlib.suppress(PermissionError):
        fd = folders.get(path)
        if os.geteuid() != 0 and os.fstat(fd).st_mode & _OWNER_ALL != _OWNER_ALL:
            os.fchmod(fd, _OWNER_ALL)
        return fd
    parent, _, name = path.rpartition(b"/")
    closed = linux.open_beneath(folders.get(parent), name, os.O_PATH | os.O_DIRECTORY)
    try:
        os.chmod(f"/proc/self/fd/{closed}", _OWNER_ALL)  # noqa: PTH101 - pathlib would resolve the link itself
    finally:
        os.close(closed)
    return folders.get(path)


def _remove_folder(folders: OpenFolders, path: bytes) -> None:
    """Remove an empty directory; one that is not empty any more is left for the next turn."""
    parent, _, name = path.rpartition(b"/")
    folders.drop(path)
    try:
        os.rmdir(name, dir_fd=_open_for_removal(folders, parent))
    except OSError as error:
        if error.errno not in {errno.ENOENT, errno.ENOTEMPTY}:
            raise


def _is_foreign(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry of the root is the file system's own."""
    return entry.name == _LOST_AND_FOUND and entry.stat(follow_symlinks=False).st_uid == 0
