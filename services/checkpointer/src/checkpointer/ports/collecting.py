"""Where the truth about workspaces lies, as the checkpointer asks for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from shared.record import Record
from shared.workspace import SnapshotRef, WorkspaceHead


class Heads(Protocol):
    """Workspace heads: read from their leader, changed by compare-and-set alone."""

    async def read(self, tenant: str, session: str) -> tuple[WorkspaceHead | None, int]:
        """Return a session's workspace head and its sequence; (None, 0): there is none.

        Raises:
            Unavailable: no leader, or no answer.
        """
        ...

    async def write(self, head: WorkspaceHead, expected_seq: int) -> int:
        """Store a head in place of the one of that sequence (0: of none); return the new one's. One try.

        Raises:
            Conflict: there is another; nothing was stored.
            Unavailable: no leader; nothing was stored.
            OutcomeUnknown: no answer: read, and decide.
        """
        ...

    async def remove(self, head: WorkspaceHead, expected_seq: int) -> None:
        """Remove the head of that sequence for good; a later one stays.

        Raises:
            ServiceError: not surely removed.
        """
        ...

    def list(self) -> AsyncIterator[tuple[WorkspaceHead, int]]:
        """Yield all heads with their sequences, perhaps a little old.

        Raises:
            Unavailable: the listing is not complete.
        """
        ...


class Records(Protocol):
    """Session records, read from their leader."""

    async def read(self, tenant: str, session: str) -> Record | None:
        """Return a session's record; None: there is none (any more).

        Raises:
            Unavailable: no leader, or no answer.
        """
        ...


class Snapshots(Protocol):
    """What snapshots consist of, read from the store."""

    async def packs_of(self, snapshot: SnapshotRef) -> frozenset[str]:
        """Return the keys of all packs that a snapshot needs, its own among them.

        Raises:
            NotFound: its pack is not there.
            Damaged: its body cannot be read.
            Unavailable: it cannot be read now.
        """
        ...

    async def check(self, snapshot: SnapshotRef, *, contents: bool) -> None:
        """Read all that a snapshot consists of, and compare it with its names.

        Args:
            snapshot: which.
            contents: the files' bytes too, not only what leads to them.

        Raises:
            NotFound: a pack is not there; names it.
            Damaged: something is not what it was; names what, and the pack.
            Unavailable: it cannot be read now.
        """
        ...
