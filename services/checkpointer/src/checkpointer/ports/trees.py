"""What snapshots hold, for whoever only looks at them."""

from __future__ import annotations

from typing import Protocol

from shared.snapshots import DiffRow
from shared.workspace import SnapshotRef


class Trees(Protocol):
    """Trees of snapshots, read from the store."""

    async def differ(
        self, before: SnapshotRef, after: SnapshotRef, skip: int, limit: int
    ) -> tuple[tuple[DiffRow, ...], bool]:
        """Return some of the differences of two snapshots, fewer perhaps, and whether there are more behind them.

        Raises:
            NotFound: a pack is not there.
            InvalidMessage, LimitExceeded: a snapshot can not be read.
            Unavailable: the store, now.
        """
        ...
