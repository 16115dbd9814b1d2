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

    def __enter__(self) -> Self:
        state, entry = self._state, self._entry
        check_name(self._folder, entry.name)
        if state.gate_is_open:
            self._name = state.hidden_name()
        try:
            # Its own: the file stays open while its threads go on to many other directories.
            self._in = os.dup(state.folders.get(self._folder))
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
            _write_all(self._fd, data, offset)
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
        if self._in >= 0:
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


def write_whole(state: Restoration, folder: bytes, entry: Entry, data: bytes | memoryview) -> None:
    """Make a file with one name, of which all content is at hand: as `FileSink` does, in the fewest calls.

    Args:
        state: of the restore.
        folder: path of its directory.
        entry: its own.
        data: exactly `entry.size` bytes.

    Raises:
        ServiceError: see `TreeWriter.write_file`; nothing is left of the file then.
    """
    check_name(folder, entry.name)
    name = state.hidden_name() if state.gate_is_open else entry.name
    dresser = state.dresser
    try:
        at = state.folders.get(folder)
        fd = os.open(name, _CREATE, dresser.mode_to_create(entry), dir_fd=at)
        try:
            _write_all(fd, data, 0)
            refused = dresser.dress_file(fd, entry)
            if name is not entry.name:
                linux.rename_new(at, name, entry.name)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=at)
            raise
        finally:
            os.close(fd)
    except OSError as error:
        state.settle(join(folder, entry.name), error)
        return
    state.count(refused=refused, written=entry.size)


def _write_all(fd: int, data: bytes | memoryview, offset: int) -> None:
    """Write all of `data` at `offset`."""
    done = os.pwrite(fd, data, offset)
    while done < len(data):
        done += os.pwrite(fd, memoryview(data)[done:], offset + done)
