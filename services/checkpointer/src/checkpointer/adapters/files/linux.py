"""The few Linux calls that Python's standard library lacks, and the one way in which files of a workspace are opened.

User code owns the tree and changes it at any moment. So nothing is opened by a path that the kernel may follow out of it:
each open starts at the root's descriptor, meets no symbolic link, and crosses no mount (`openat2`, or where a kernel or a
sandbox lacks it, one component at a time).
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from functools import cache
from typing import Final

_SYS_OPENAT2: Final = 437  # the same on every architecture
_RESOLVE_NO_XDEV, _RESOLVE_NO_MAGICLINKS, _RESOLVE_NO_SYMLINKS, _RESOLVE_BENEATH = 1, 2, 4, 8
_RESOLVE: Final = (
    _RESOLVE_NO_XDEV | _RESOLVE_NO_MAGICLINKS | _RESOLVE_NO_SYMLINKS | _RESOLVE_BENEATH
)
_HOW: Final = struct.Struct("=QQQ")
_PIECE_BYTES_MAX: Final = 4000
"""The kernel takes no longer path at once (4,096 with its end)."""
_INTERRUPTED_MAX: Final = 16

_RENAME_NOREPLACE: Final = 1
_WRITE_AND_WAIT: Final = 1 | 2 | 4
_FIRST_OF_STATFS: Final = struct.Struct("l")

NOATIME: Final = getattr(os, "O_NOATIME", 0)
"""Leaves no trace in the access time. Allowed to a file's owner and to root."""
DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PASS: Final = (
    os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    if hasattr(os, "O_PATH")
    else DIRECTORY
)

_TRACKING: Final = {0xEF53, 0x58465342, 0x9123683E}
"""ext4, XFS and Btrfs: a write through a mapping moves a file's times once its page was written back before (measured).
On tmpfs it never does, of others it is not known."""

_libc = ctypes.CDLL(None, use_errno=True)
_openat2 = _libc["syscall"]
_openat2.restype = ctypes.c_long
_openat2.argtypes = [
    ctypes.c_long,
    ctypes.c_long,
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_size_t,
]
_renameat2 = getattr(_libc, "renameat2", None)


def _failure(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")


@cache
def _how(flags: int) -> bytes:
    return _HOW.pack(flags, 0, _RESOLVE)


@cache
def has_openat2() -> bool:
    """Return whether the kernel, and any sandbox around this process, has the call."""
    how = _HOW.pack(_PASS, 0, _RESOLVE_NO_SYMLINKS)
    fd = _openat2(_SYS_OPENAT2, -100, b"/", how, _HOW.size)
    if fd >= 0:
        os.close(fd)
    return bool(fd >= 0)


def open_beneath(root: int, path: bytes, flags: int) -> int:
    """Open what lies at `path` below the directory `root`.

    Args:
        root: descriptor of the workspace's directory.
        path: names joined by slashes; empty for the root itself. May be longer than the kernel's own limit.
        flags: of open(2); `O_CLOEXEC` and `O_NOFOLLOW` are added. Never creates.

    Raises:
        OSError: ELOOP or ENOTDIR: a symbolic link is in the way; EXDEV: it is a mount, lies behind one, or leads upwards.
    """
    if b".." in path and b".." in path.split(b"/"):
        raise OSError(errno.EXDEV, "leads upwards")
    flags |= os.O_NOFOLLOW | os.O_CLOEXEC
    whole = has_openat2()
    if whole and len(path) < _PIECE_BYTES_MAX:
        return _open_once(root, path or b".", flags)
    pieces = _pieces(path, whole=whole)
    at = root
    try:
        for piece in pieces[:-1]:
            below = _step(at, piece, _PASS, whole=whole)
            if at != root:
                os.close(at)
            at = below
        return _step(at, pieces[-1], flags, whole=whole)
    finally:
        if at != root:
            os.close(at)


def open_folder(root: int, path: bytes) -> int:
    """Open a directory below another one; that it is listed leaves no trace where that is allowed.

    Raises:
        OSError: see `open_beneath`.
    """
    try:
        return open_beneath(root, path, DIRECTORY | NOATIME)
    except PermissionError:
        return open_beneath(root, path, DIRECTORY)


def _pieces(path: bytes, *, whole: bool) -> list[bytes]:
    """Return the path in parts that one call opens: a name each, or as many names as fit."""
    if not whole:
        return path.split(b"/") if path else [b"."]
    pieces: list[bytes] = []
    while len(path) >= _PIECE_BYTES_MAX and (cut := path.rfind(b"/", 0, _PIECE_BYTES_MAX)) > 0:
        pieces.append(path[:cut])
        path = path[cut + 1 :]
    return [*pieces, path]


def _step(at: int, piece: bytes, flags: int, *, whole: bool) -> int:
    """Open one piece below the directory `at`."""
    if whole:
        return _open_once(at, piece, flags)
    fd = os.open(piece, flags, dir_fd=at)
    if os.fstat(fd).st_dev != os.fstat(at).st_dev:
        os.close(fd)
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    return fd


def _open_once(at: int, path: bytes, flags: int) -> int:
    """Open by openat2(2)."""
    if b"\0" in path:
        raise ValueError("a path with a NUL byte")
    for _ in range(_INTERRUPTED_MAX):
        fd = _openat2(_SYS_OPENAT2, at, path, _how(flags), _HOW.size)
        if fd >= 0:
            return int(fd)
        number = ctypes.get_errno()
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number))
    raise OSError(errno.EINTR, os.strerror(errno.EINTR))


def sync_filesystem(fd: int) -> None:
    """Write all dirty pages of the file system that holds `fd`.

    Only then does the next write through a mapping move its file's times.

    Raises:
        OSError: the disk failed.
    """
    if _libc.syncfs(fd) < 0:
        raise _failure("syncfs")


def write_back(fd: int) -> None:
    """Write the dirty pages of one file, for the same reason; no metadata, no flush of the disk's own cache."""
    # Its failure changes nothing here: at worst a mapped write goes unseen until the next snapshot.
    _libc.sync_file_range(fd, ctypes.c_int64(0), ctypes.c_int64(0), _WRITE_AND_WAIT)


def tracks_mapped_writes(fd: int) -> bool:
    """Return whether a file's times tell of each write through a mapping, once `sync_filesystem` has run."""
    buffer = ctypes.create_string_buffer(512)
    if _libc.fstatfs(fd, buffer) < 0:
        return False
    kind: int = _FIRST_OF_STATFS.unpack_from(buffer)[0]
    return kind & 0xFFFFFFFF in _TRACKING


def rename_new(directory: int, old: bytes, new: bytes) -> None:
    """Rename within one directory; never replaces.

    Raises:
        FileExistsError: there is something by the new name.
        OSError: another failure.
    """
    if _renameat2 is not None:
        if _renameat2(directory, old, directory, new, _RENAME_NOREPLACE) == 0:
            return
        failure = _failure("rename")
        if failure.errno not in {errno.EINVAL, errno.ENOSYS}:
            raise failure
    os.link(old, new, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
    os.unlink(old, dir_fd=directory)
