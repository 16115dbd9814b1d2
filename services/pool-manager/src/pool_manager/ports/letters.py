"""Dead letters as a pool-manager sees them."""

from __future__ import annotations

from typing import Protocol

from shared.letters import DeadLetter
from shared.views import LetterRow


class Letters(Protocol):
    """Dead letters. All raise ServiceError where their stream does not answer."""

    async def bury(self, letter: DeadLetter, body: bytes) -> int:
        """Keep a letter and return its number; again for the same task, it is kept once."""
        ...

    async def page(self, tenant: str, before: int | None, limit: int) -> list[LetterRow]:
        """Return the tenant's newest letters below a number, the newest first."""
        ...

    async def find(self, tenant: str, number: int) -> tuple[LetterRow, bytes] | None:
        """Return one of the tenant's letters with its body."""
        ...

    async def remove(self, number: int) -> bool:
        """Remove a letter; return whether it was there."""
        ...
