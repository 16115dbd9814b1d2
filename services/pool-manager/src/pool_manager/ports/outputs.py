"""Stored output of tasks as a pool-manager sees it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from pool_manager.core.replays import StoredOutput


class Outputs(Protocol):
    """What tasks said. All raise ServiceError where their stream does not answer."""

    def scan(
        self, tenant: str, session: str, task: str, after_seq: int
    ) -> AsyncIterator[StoredOutput]:
        """Read a task's messages that follow a sequence, in order. A replica may lag behind."""
        ...

    async def following(
        self, tenant: str, session: str, task: str, after_seq: int
    ) -> StoredOutput | None:
        """Return a task's message that follows a sequence, as the leader has it."""
        ...

    async def last(self, tenant: str, session: str, task: str) -> StoredOutput | None:
        """Return a task's newest message, as the leader has it."""
        ...
