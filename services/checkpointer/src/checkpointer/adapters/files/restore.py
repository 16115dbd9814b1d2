"""Writing a tree that somebody hostile may have made, into a directory where somebody hostile may already work.

Every name is made in an open directory, exclusively and without following anything. Nobody is in the workspace before the
caller opens its gate; from then on (`open_gate`) each file appears by a rename, whole, and what user code has put in its
place meanwhile stays.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import threading
from collections.abc import Sequence
from itertools import count
from typing import Final, Self

import msgspec

from checkpointer.adapters.files import linux
from checkpointer.adapters.files.folders import OpenFolders
from checkpointer.adapters.files.metadata import Dresser
from checkpointer.core.entries import FIFO, SOCKET, SYMLINK, Entry, is_bad_name, show
from checkpointer.core.errors import Damaged
from checkpointer.core.trees import join
from shared.errors import Conflict, LimitExceeded, Unavailable

_CREATE: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_ROOM: Final = {errno.ENOSPC, errno.EDQUOT}
_TAKEN: Final = {errno.EEXIST, errno.ENOENT, errno.ENOTDIR, errno.ELOOP}
"""User code has made, removed or replaced something."""
_NO_SUCH_NAME: Final = {errno.ENAMETOOLONG, errno.EILSEQ, errno.EFBIG}
_NO_LINK: Final = {errno.EMLINK, errno.EPERM, errno.EXDEV, errno.ENOTSUP}
_COPY_BYTES: Final = 1 << 20
_SPECIAL: Final = {FIFO: stat.S_IFIFO, SOCKET: stat.S_IFSOCK}

Place = tuple[bytes, bytes]
"""A directory's path and a name in it."""


class Tally(msgspec.Struct):
    """What was made, and what the file system or user code would not have."""

    files: int = 0
    content_bytes: int = 0
    metadata_refused: int = 0
    """Times, modes, owners and attributes that could not be set."""
    links_copied: int = 0
    """Names of a file with several that had to become files of their own."""
    kept: int = 0
    """Entries that gave way to what user code did there before they were restored."""


class TreeWriter:
    """Restores one tree. Files may be written by several threads at once."""

    def __init__(self, root: int) -> None:
        """Begin.

        Args:
            root: descriptor of the workspace's directory; stays the caller's. Its owner will own all that is made.
        """
        self.folders = OpenFolders(root)
        self.dresser = Dresser(root)
        self.gate_is_open = False
        self._lock = threading.Lock()
        self._hidden = b".restoring-" + secrets.token_hex(8).encode() + b"-"
        self._numbers = count()
        self.tally = Tally()

    def open_gate(self) -> None:
        """Expect user code in the workspace from now on. No file is being written at this moment."""
        self.gate_is_open = True

    def close(self) -> None:
        """Close all directories, when no thread writes any more."""
        self.folders.close()

    def hidden_name(self) -> bytes:
        """Return a name for a file that is not whole yet."""
        return self._hidden + str(next(self._numbers)).encode()

    def make_folder(self, path: bytes, entry: Entry) -> None:
        """Make a directory; the one that holds it is there.

        Args:
            path: its own, from the root.
            entry: its metadata. Mode and times come with `finish_folder`, once it is full.

        Raises:
            ServiceError: see `write_file`.
        """
        parent, _, name = path.rpartition(b"/")
        _check_name(parent, name)
        try:
            folder = self.folders.get(parent)
            os.mkdir(name, 0o700, dir_fd=folder)
            fd = os.open(name, linux.DIRECTORY, dir_fd=folder)
            self.folders.put(path, fd)
            self.count(refused=self.dresser.dress_new_folder(fd, entry))
        except OSError as error:
            self.settle(path, error)

    def finish_folder(self, path: bytes, entry: Entry) -> None:
        """Give a directory its mode, attributes and times. Nothing is made in it afterwards.

        The root keeps its mode: it is the node's.
        """
        try:
            fd = self.folders.get(path)
        except OSError as error:
            self.settle(path, error)
            return
        self.count(refused=self.dresser.dress_full_folder(fd, entry, is_root=not path))

    def make_leaf(self, folder: bytes, entry: Entry) -> None:
        """Make a symbolic link, a named pipe or a socket.

        Args:
            folder: path of its directory.
            entry: a link's target stands in its `content`.

        Raises:
            ServiceError: see `write_file`.
        """
        name, path = entry.name, join(folder, entry.name)
        _check_name(folder, name)
        if entry.kind == SYMLINK and (not entry.content or b"\0" in entry.content):
            raise Damaged(f"{show(path)}: a symbolic link that leads nowhere")
        try:
            fd = self.folders.get(folder)
            if entry.kind == SYMLINK:
                os.symlink(entry.content, name, dir_fd=fd)
                self.count(refused=self.dresser.dress_link(fd, entry))
                return
            os.mknod(name, _SPECIAL[entry.kind] | 0o600, dir_fd=fd)
            special = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
            try:
                self.count(refused=self.dresser.dress_special(special, entry))
            finally:
                os.close(special)
        except OSError as error:
            self.settle(path, error)

    def write_file(
        self, folder: bytes, entry: Entry, data: bytes | memoryview, links: Sequence[Place] = ()
    ) -> None:
        """Make a file of which all content is at hand.

        Args:
            folder: path of its directory.
            entry: its name and metadata.
            data: `entry.size` bytes.
            links: its other names.

        Raises:
            LimitExceeded: the disk is full, or its file system takes no such name.
            Damaged: a name that would mean another place.
            Conflict: something is there already, and the gate is not open.
            Unavailable: the disk failed.
        """
        with FileSink(self, folder, entry, links) as sink:
            sink.write(0, data)

    def open_file(self, folder: bytes, entry: Entry, links: Sequence[Place] = ()) -> FileSink:
        """Return a file to be written piece by piece, as a context manager; it is complete when its block ends.

        Args:
            folder: path of its directory.
            entry: its name, size and metadata.
            links: its other names.

        Raises:
            ServiceError: see `write_file`; the block may raise it, too. Nothing is left of the file then.
        """
        return FileSink(self, folder, entry, links)

    def count(self, *, refused: int = 0, kept: int = 0, copied: int = 0, written: int = -1) -> None:
        """Add to the tally; `written` are the bytes of one more file."""
        if refused or kept or copied or written >= 0:
            with self._lock:
                self.tally.metadata_refused += refused
                self.tally.kept += kept
                self.tally.links_copied += copied
                if written >= 0:
                    self.tally.files += 1
                    self.tally.content_bytes += written

    def settle(self, path: bytes, error: OSError) -> None:
        """Count an entry that user code was faster with.

        Raises:
            ServiceError: it is something else.
        """
        number = error.errno or 0
        if self.gate_is_open and number in _TAKEN:
            self.count(kept=1)
            return
        said = f"{show(path)}: {os.strerror(number)}"
        if number in _NO_ROOM or number in _NO_SUCH_NAME:
            raise LimitExceeded(said) from error
        if number in _TAKEN:
            raise Conflict(said) from error
        raise Unavailable(said) from error


class FileSink:
    """A file in the making."""

    def __init__(
        self, writer: TreeWriter, folder: bytes, entry: Entry, links: Sequence[Place]
    ) -> None:
        """Keep what it is about; it is created when the block begins."""
        self._writer = writer
        self._path = join(folder, entry.name)
        self._entry = entry
        self._links = links
        self._folder = folder
        self._fd = self._in = -1
        self._name = entry.name

    def __enter__(self) -> Self:
        writer, entry = self._writer, self._entry
        _check_name(self._folder, entry.name)
        if writer.gate_is_open:
            self._name = writer.hidden_name()
        try:
            self._in = writer.folders.get(self._folder)
            mode = writer.dresser.mode_to_create(entry)
            self._fd = os.open(self._name, _CREATE, mode, dir_fd=self._in)
        except OSError as error:
            writer.settle(self._path, error)
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
            self._writer.settle(self._path, error)

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
            self._writer.settle(self._path, error)
        finally:
            os.close(self._fd)

    def _finish(self) -> None:
        """Complete the file, then show it under its names."""
        writer, entry = self._writer, self._entry
        if os.lseek(self._fd, 0, os.SEEK_END) != entry.size:
            os.ftruncate(self._fd, entry.size)  # a hole at its end
        refused = writer.dresser.dress_file(self._fd, entry)
        if self._name != entry.name:
            linux.rename_new(self._in, self._name, entry.name)
        writer.count(refused=refused, written=entry.size)
        for folder, name in self._links:
            self._add_name(folder, name)

    def _abandon(self) -> None:
        """Leave nothing half made."""
        with contextlib.suppress(OSError):
            os.unlink(self._name, dir_fd=self._in)

    def _add_name(self, folder: bytes, name: bytes) -> None:
        """Give the file another name, by its descriptor: what user code does to its first name leads nowhere else."""
        writer = self._writer
        _check_name(folder, name)
        try:
            below = writer.folders.get(folder)
            try:
                os.link(f"/proc/self/fd/{self._fd}", name, dst_dir_fd=below, follow_symlinks=True)
            except OSError as error:
                if error.errno not in _NO_LINK:
                    raise
                self._copy(below, name)
                writer.count(copied=1)
        except OSError as error:
            writer.settle(join(folder, name), error)

    def _copy(self, below: int, name: bytes) -> None:
        """Make another file with the same content, where the file system takes no more names."""
        entry = self._entry
        mode = self._writer.dresser.mode_to_create(entry)
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
            self._writer.count(refused=self._writer.dresser.dress_file(fd, entry))
        finally:
            os.close(fd)


def _check_name(folder: bytes, name: bytes) -> None:
    """Refuse a name that would mean another place.

    Raises:
        Damaged: it would; decoders refuse it before.
    """
    if is_bad_name(name):
        raise Damaged(f"{show(folder)}: {name[:64]!r} is no name of a file")
