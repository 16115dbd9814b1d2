"""Writing a tree that somebody hostile may have made, into a directory where somebody hostile may already work.

Every name is made in an open directory, exclusively and without following anything. Nobody is in the workspace before the
caller opens its gate; from then on (`open_gate`) each file appears by a rename, whole, and what user code has put in its
place meanwhile stays.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from typing import Final

from checkpointer.adapters.files import linux
from checkpointer.adapters.files.restoration import Restoration, Tally, check_name
from checkpointer.adapters.files.sink import FileSink, Place, write_whole
from checkpointer.core.entries import FIFO, SOCKET, SYMLINK, Entry, show
from checkpointer.core.scans import FileOwner
from checkpointer.core.trees import join
from shared.errors import Damaged

_SPECIAL: Final = {FIFO: stat.S_IFIFO, SOCKET: stat.S_IFSOCK}


class TreeWriter:
    """Restores one tree. Files may be written by several threads at once."""

    def __init__(self, root: int, owner: FileOwner | None = None) -> None:
        """Begin.

        Args:
            root: descriptor of the workspace's directory; stays the caller's.
            owner: who will own all that is made; None: the root's owner.
        """
        self._state = Restoration(root, owner)

    @property
    def tally(self) -> Tally:
        """What was made so far."""
        return self._state.tally

    def open_gate(self) -> None:
        """Expect user code in the workspace from now on. No file is being written at this moment."""
        self._state.gate_is_open = True

    def close(self) -> None:
        """Close all directories, when no thread writes any more."""
        self._state.folders.close()

    def make_folder(self, path: bytes, entry: Entry) -> None:
        """Make a directory; the one that holds it is there.

        Args:
            path: its own, from the root.
            entry: its metadata. Mode and times come with `finish_folder`, once it is full.

        Raises:
            ServiceError: see `write_file`.
        """
        parent, _, name = path.rpartition(b"/")
        check_name(parent, entry.name)
        assert name == entry.name, "the path is another entry's"
        try:
            folder = self._state.folders.get(parent)
            os.mkdir(name, 0o700, dir_fd=folder)
            fd = os.open(name, linux.DIRECTORY, dir_fd=folder)
            self._state.folders.put(path, fd)
            self._state.count(refused=self._state.dresser.dress_new_folder(fd, entry))
        except OSError as error:
            self._state.settle(path, error)

    def finish_folder(self, path: bytes, entry: Entry) -> None:
        """Give a directory its mode, attributes and times. Nothing is made in it afterwards.

        The root keeps its mode: it is the node's.
        """
        try:
            fd = self._state.folders.get(path)
        except OSError as error:
            self._state.settle(path, error)
            return
        self._state.count(
            refused=self._state.dresser.dress_full_folder(fd, entry, is_root=not path)
        )

    def make_leaf(self, folder: bytes, entry: Entry) -> None:
        """Make a symbolic link, a named pipe or a socket.

        Args:
            folder: path of its directory.
            entry: a link's target stands in its `content`.

        Raises:
            ServiceError: see `write_file`.
        """
        name, path = entry.name, join(folder, entry.name)
        check_name(folder, name)
        if entry.kind == SYMLINK and (not entry.content or b"\0" in entry.content):
            raise Damaged(f"{show(path)}: a symbolic link that leads nowhere")
        try:
            fd = self._state.folders.get(folder)
            if entry.kind == SYMLINK:
                os.symlink(entry.content, name, dir_fd=fd)
                self._state.count(refused=self._state.dresser.dress_link(fd, entry))
                return
            os.mknod(name, _SPECIAL[entry.kind] | 0o600, dir_fd=fd)
            special = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
            try:
                self._state.count(refused=self._state.dresser.dress_special(special, entry))
            finally:
                os.close(special)
        except OSError as error:
            self._state.settle(path, error)

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
        if links or len(data) != entry.size:
            with FileSink(self._state, folder, entry, links) as sink:
                sink.write(0, data)
            return
        write_whole(self._state, folder, entry, data)

    def open_file(self, folder: bytes, entry: Entry, links: Sequence[Place] = ()) -> FileSink:
        """Return a file to be written piece by piece, as a context manager; it is complete when its block ends.

        Args:
            folder: path of its directory.
            entry: its name, size and metadata.
            links: its other names.

        Raises:
            ServiceError: see `write_file`; the block may raise it, too. Nothing is left of the file then.
        """
        return FileSink(self._state, folder, entry, links)
