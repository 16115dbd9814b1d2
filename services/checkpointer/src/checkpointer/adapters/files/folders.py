"""The directories that each thread keeps open: neighbours are looked at, read and written one after the other."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from typing import Final

from checkpointer.adapters.files import linux

OPEN_MAX: Final = 16
"""Directories that each thread keeps open."""


class OpenFolders:
    """Descriptors by path, the least used one closed first; a thread never closes what another one uses."""

    def __init__(self, root: int) -> None:
        """Begin below a directory whose descriptor stays the caller's."""
        self._root = root
        self._local = threading.local()
        self._lock = threading.Lock()
        self._all: list[OrderedDict[bytes, int]] = []

    def get(self, path: bytes) -> int:
        """Return the descriptor of a directory; good until this thread has asked for `OPEN_MAX - 1` others.

        It is opened from its parent, so that of a thousand neighbours far down only the first one costs the way there.

        Raises:
            OSError: it is no directory below the root.
        """
        if not path:
            return self._root
        mine = self._mine()
        fd = mine.get(path)
        if fd is not None:
            mine.move_to_end(path)
            return fd
        parent, _, name = path.rpartition(b"/")
        above = mine.get(parent) if parent else self._root
        if above is None:
            above = linux.open_folder(self._root, parent)
            self.put(parent, above)
        elif parent:
            mine.move_to_end(parent)
        fd = linux.open_folder(above, name)
        self.put(path, fd)
        return fd

    def drop(self, path: bytes) -> None:
        """Close a directory, if this thread has it open: there will be another one by its name, or none."""
        fd = self._mine().pop(path, None)
        if fd is not None:
            os.close(fd)

    def put(self, path: bytes, fd: int) -> None:
        """Keep a directory that this thread has just opened."""
        mine = self._mine()
        mine[path] = fd
        if len(mine) > OPEN_MAX:
            os.close(mine.popitem(last=False)[1])

    def close(self) -> None:
        """Close all, when no thread uses one any more."""
        with self._lock:
            for kept in self._all:
                while kept:
                    os.close(kept.popitem()[1])

    def _mine(self) -> OrderedDict[bytes, int]:
        mine: OrderedDict[bytes, int] | None = getattr(self._local, "folders", None)
        if mine is None:
            mine = self._local.folders = OrderedDict()
            with self._lock:
                self._all.append(mine)
        return mine
