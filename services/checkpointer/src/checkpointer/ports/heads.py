"""Workspace heads, as the checkpointer's loops read and write them."""

from __future__ import annotations

from typing import Protocol

from shared.workspace import WorkspaceHead


class HeadStore(Protocol):
    """Heads, read from their leader and changed by compare-and-set."""

    async def read(self, tenant: str, session: str) -> tuple[WorkspaceHead | None, int]:
        """Return a session's workspace head and its sequence; (None, 0): there is none.

        Raises:
            Unavailable, OutcomeUnknown: no answer.
        """
        ...

    async def write(self, head: WorkspaceHead, expected_seq: int) -> int:
        """Write a head in place of the one of that sequence; return the new one's. One try.

        Raises:
            Conflict: there is another; nothing was written.
            Unavailable: no leader; nothing was written.
            OutcomeUnknown: no answer: read, and decide.
        """
        ...
