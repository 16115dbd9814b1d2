"""Session records, as the checkpointer reads and, for what it rescues, writes them."""

from __future__ import annotations

from typing import Protocol

from shared.record import Record


class RecordStore(Protocol):
    """Records, read from their leader and changed by compare-and-set."""

    async def read(self, tenant: str, session: str) -> Record | None:
        """Return a session's record; None: there is none (any more).

        Raises:
            Unavailable: no leader, or no answer.
        """
        ...

    async def read_with_seq(self, tenant: str, session: str) -> tuple[Record | None, int]:
        """Return a session's record and its sequence; (None, 0): there is none.

        Raises:
            Unavailable: no leader, or no answer.
        """
        ...

    async def write(self, record: Record, expected_seq: int) -> int:
        """Store a record in place of the one of that sequence; return the new one's. One try.

        Raises:
            Conflict: there is another; nothing was stored.
            Unavailable: no leader; nothing was stored.
            OutcomeUnknown: no answer: read, and decide.
        """
        ...
