"""What the parts of one restore share: open directories, the gate, the tally, and what a failure means."""

from __future__ import annotations

import errno
import os
import secrets
import threading
from itertools import count
from typing import Final

import msgspec

from checkpointer.adapters.files.folders import OpenFolders
from checkpointer.adapters.files.metadata import Dresser
from checkpointer.core.entries import is_bad_name, show
from checkpointer.core.scans import FileOwner
from shared.errors import Conflict, Damaged, LimitExceeded, Unavailable

_NO_ROOM: Final = {errno.ENOSPC, errno.EDQUOT}
_TAKEN: Final = {errno.EEXIST, errno.ENOENT, errno.ENOTDIR, errno.ELOOP}
"""User code has made, removed or replaced something."""
_NO_SUCH_NAME: Final = {errno.ENAMETOOLONG, errno.EILSEQ, errno.EFBIG}


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


class Restoration:
    """The state of one restore."""

    def __init__(self, root: int, owner: FileOwner | None = None) -> None:
        """Begin.

        Args:
            root: descriptor of the workspace's directory; stays the caller's.
            owner: who will own what is made; None: the root's owner.
        """
        self.folders = OpenFolders(root)
        self.dresser = Dresser(root, owner)
        self.gate_is_open = False
        """True: user code may be in the workspace."""
        self.tally = Tally()
        self._lock = threading.Lock()
        self._hidden = b".restoring-" + secrets.token_hex(8).encode() + b"-"
        self._numbers = count()

    def hidden_name(self) -> bytes:
        """Return a name for a file that is not whole yet."""
        return self._hidden + str(next(self._numbers)).encode()

    def count(self, *, refused: int = 0, kept: int = 0, copied: int = 0, written: int = -1) -> None:
        """Add to the tally; `written` are the bytes of one more file."""
        tally = self.tally
        with self._lock:
            if refused or kept or copied:
                tally.metadata_refused += refused
                tally.kept += kept
                tally.links_copied += copied
            if written >= 0:
                tally.files += 1
                tally.content_bytes += written

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


def check_name(folder: bytes, name: bytes) -> None:
    """Refuse a name that would mean another place.

    Raises:
        Damaged: it would; decoders refuse it before.
    """
    if is_bad_name(name):
        raise Damaged(f"{show(folder)}: {name[:64]!r} is no name of a file")
