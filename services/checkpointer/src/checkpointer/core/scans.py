"""What one look at a workspace saw, directory by directory."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from checkpointer.core.excludes import Excludes
from checkpointer.core.listings import Listing

GONE: Final = "gone"
"""It vanished, or became something else, since its directory was listed."""
UNREADABLE: Final = "unreadable"
"""Its owner lets nobody read it, and the checkpointer is an ordinary user."""
MOUNT: Final = "mount"
"""Another file system is mounted there: not the workspace's own."""


class Folder(NamedTuple):
    """One directory."""

    path: bytes
    """From the root, without a slash at either end; empty for the root."""
    listing: Listing
    unsettled: frozenset[bytes]
    """Names that must not be taken for unchanged next time, whatever their signature: racy ones."""
    accessed: frozenset[bytes]
    """Files that were read since they were written or restored, as far as the mount keeps such times."""

    def to_cache(self, more: frozenset[bytes] = frozenset()) -> Listing:
        """Return the listing to compare the next scan with.

        Args:
            more: further names that are to be read again then: torn ones, and those that changed after the scan.
        """
        return self.listing.unsettle(self.unsettled | more)


class FileOwner(NamedTuple):
    """Whose files are."""

    uid: int
    gid: int


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """How to scan."""

    excludes: Excludes = Excludes(())
    sync: bool = True
    """Write dirty pages first, without which changes through mappings go unseen."""
    owner: FileOwner | None = None
    """Whose the workspace is; None: its root's owner's."""


class Scan(msgspec.Struct, kw_only=True):
    """What was seen."""

    started_ns: int
    """Wall clock."""
    device: int
    """Of the root, like the next two."""
    inode: int
    mode: int
    uid: int
    """Whose the workspace is: entries name users relative to him."""
    gid: int
    mtime_ns: int
    """Of the root."""
    folders: list[Folder] = []
    """Parents before their children, the root first."""
    entries: int = 0
    """All names that a snapshot will hold."""
    data_bytes: int = 0
    """Of regular files, without their holes."""
    devices: int = 0
    """Device nodes: left out."""
    excluded: int = 0
    skipped: dict[bytes, str] = {}
    """Paths that could not be looked at -> `GONE`, `UNREADABLE` or `MOUNT`. A directory here has no `Folder`."""
