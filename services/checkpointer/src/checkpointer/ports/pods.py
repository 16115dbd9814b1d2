"""Where the folders of a node's pods are: whoever starts pods there lays them out in a way of its own."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from checkpointer.core.scans import FileOwner


class PodFolders(Protocol):
    """Finds the folders of pods by their names. Blocks; called from threads."""

    @property
    def owner(self) -> FileOwner | None:
        """Whose the files of workspaces are; None: they are their root's owner's."""
        ...

    def workspace(self, pod: str) -> AbstractContextManager[int]:
        """Open a pod's workspace, never through a link; its descriptor is closed after the block.

        Raises:
            InvalidMessage: no pod is called so.
            Unavailable: it is not on this node (any more).
        """
        ...

    def mark(self, pod: str) -> bytes | None:
        """Return the beginning of the file in which its worker says what is in the workspace; None: there is none.

        Nor is there one once anything may have been taken out of the workspace by whoever removes it.

        Raises:
            InvalidMessage: no pod is called so.
        """
        ...

    def cache(self, pod: str) -> Path | None:
        """Return the file for what of its workspace is saved already; it goes when the pod does. None: nowhere.

        Raises:
            InvalidMessage: no pod is called so.
            Unavailable: it is not on this node (any more).
        """
        ...
