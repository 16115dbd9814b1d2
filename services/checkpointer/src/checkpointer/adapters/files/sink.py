"""A file in the making: created exclusively, written in any order, shown when it is whole."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Sequence
from typing import Final, Self

from checkpointer.adapters.files import linux
from checkpointer.adapters.files.restoration import Restoration, check_name
from checkpointer.core.entries import Entry
from checkpointer.core.trees import join

_CREATE: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_LINK: Final = {errno.EMLINK, errno.EPERM, errno.EXDEV, errno.ENOTSUP}
_COPY_BYTES: Final = 1 << 20

Place = tuple[bytes, bytes]
"""A directory's path and a name in it."""


class FileSink:
    """A file in the making."""

    def __init__(
        self, state: Restoration, folder: bytes, entry: Entry, links: Sequence[Place]
    ) -> None:
        """Keep what it is about; it is created when the block begins."""
        self._state = state
        self._path = join(folder, entry.name)
        self._entry = entry
        self._links = links
        self._folder = folder
        self._fd = self._in = -1
        self._name = entry.name
        self.stays_open = True
        """It may stay open while its threads go on to many other directories: it has a descriptor of its directory for itself."""

    def __enter__(self) -> Self:
        state, entry = self._state, self._entry
        check_name(self._folder, entry.name)
        if state.gate_is_open:
            self._name = state.hidden_name()
        try:
            self._in = state.folders.get(self._folder)
            if self.stays_open:
                self._in = os.dup(self._in)
            mode = state.dresser.mode_to_create(entry)
            self._fd = os.open(self._name, _CREATE, mode, dir_fd=self._in)
        except OSError as error:
            self._close()
            state.settle(self._path, error)
        return self

    def write(self, offset: int, data: bytes | memoryview) -> None:
        """Write one piece, in any order and from any thread.

        Raises:
            LimitExceeded: the disk is full.
            Unavailable: it failed.
        """
        if self._fd < 0:
            return
        try:
            done = os.pwrite(self._fd, data, offset)
            while done < len(data):
                done += os.pwrite(self._fd, memoryview(data)[done:], offset + done)
        except OSError as error:
            self._state.settle(self._path, error)

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: object
    ) -> None:
        if self._fd < 0:
            return
        try:
            if kind is None:
                self._finish()
            else:
                self._abandon()
        except OSError as error:
            self._abandon()
            self._state.settle(self._path, error)
        finally:
            self._close()

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        if self._in >= 0 and self.stays_open:
            os.close(self._in)
        self._fd = self._in = -1

    def _finish(self) -> None:
        """Complete the file, then show it under its names."""
        state, entry = self._state, self._entry
        if os.lseek(self._fd, 0, os.SEEK_END) != entry.size:
            os.ftruncate(self._fd, entry.size)  # a hole at its end
        refused = state.dresser.dress_file(self._fd, entry)
        if self._name != entry.name:
            linux.rename_new(self._in, self._name, entry.name)
        state.count(refused=refused, written=entry.size)
        for folder, name in self._links:
            self._add_name(folder, name)

    def _abandon(self) -> None:
        """Leave nothing half made."""
        with contextlib.suppress(OSError):
            os.unlink(self._name, dir_fd=self._in)

    def _add_name(self, folder: bytes, name: bytes) -> None:
        """Give the file another name, by its descriptor: what user code does to its first name leads nowhere else."""
        state = self._state
        check_name(folder, name)
        try:
            below = state.folders.get(folder)
            try:
                os.link(f"/proc/self/fd/{self._fd}", name, dst_dir_fd=below, follow_symlinks=True)
            except OSError as error:
                if error.errno not in _NO_LINK:
                    raise
                self._copy(below, name)
                state.count(copied=1)
        except OSError as error:
            state.settle(join(folder, name), error)

    def _copy(self, below: int, name: bytes) -> None:
        """Make another file with the same content, where the file system takes no more names."""
        entry = self._entry
        mode = self._state.dresser.mode_to_create(entry)
        fd = os.open(name, _CREATE, mode, dir_fd=below)
        try:
            at = 0
            while at < entry.size:
                data = os.pread(self._fd, _COPY_BYTES, at)
                if not data:
                    break
                while data:
                    written = os.pwrite(fd, data, at)
                    data, at = data[written:], at + written
            self._state.count(refused=self._state.dresser.dress_file(fd, entry))
        finally:
            os.close(fd)
