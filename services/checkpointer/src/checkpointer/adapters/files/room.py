"""Whether a tree may be restored into a directory: it must be empty, and its disk large enough."""

from __future__ import annotations

import os
from typing import Final

from checkpointer.core.entries import show
from shared.errors import Conflict, LimitExceeded

_LOST_AND_FOUND: Final = "lost+found"


def check_empty(root: int) -> None:
    """Refuse a directory that holds anything; a file system's own `lost+found` is nothing.

    Raises:
        Conflict: names one of its entries.
    """
    with os.scandir(root) as entries:
        for entry in entries:
            if entry.name == _LOST_AND_FOUND and entry.stat(follow_symlinks=False).st_uid == 0:
                continue
            raise Conflict(f"the workspace is not empty: it holds {show(os.fsencode(entry.name))}")


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
