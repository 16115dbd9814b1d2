"""Results of a session's tasks as a pool-manager lists them."""

from __future__ import annotations

from typing import Protocol

import msgspec

from shared.messages import TaskResult


class Ended(msgspec.Struct, frozen=True):
    """A result as a stream has it."""

    result: TaskResult
    seq: int
    stored_ms: int


class Results(Protocol):
    """Results by session."""

    async def ended(self, tenant: str, session: str, after_seq: int, limit: int) -> list[Ended]:
        """Return a session's results that were stored after `after_seq`, in order; none that is known is missing.

        Raises:
            Unavailable: their stream does not answer.
        """
        ...
