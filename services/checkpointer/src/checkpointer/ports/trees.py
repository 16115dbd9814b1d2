"""What snapshots hold, for whoever only looks at them."""

from __future__ import annotations

from typing import Protocol

from shared.files import ObjectRef
from shared.snapshots import DiffRow
from shared.workspace import SnapshotRef


class Trees(Protocol):
    """Trees of snapshots, read from the store.

    All raise NotFound (a pack is not there), InvalidMessage (it can't be read), Unavailable (the store, now).
    """

    async def differ(
        self, before: SnapshotRef, after: SnapshotRef, skip: int, limit: int
    ) -> tuple[tuple[DiffRow, ...], bool]:
        """Return some of the differences of two snapshots, and whether there are more behind them."""
        ...

    async def archive(self, tenant: str, snapshot: SnapshotRef, path: str) -> ObjectRef:
        """Store a directory or a file of a snapshot as a tar archive among a tenant's objects.

        Raises:
            NotFound: there is no such path in it.
            LimitExceeded: it is larger, or has more members, than an archive may.
        """
        ...
