"""Workspaces as pool-managers see them: what is retained, and checkpointers that look after it."""

from __future__ import annotations

from typing import Protocol

import msgspec

from shared.snapshots import KeeperAnswer
from shared.workspace import WorkspaceHead


class Heads(Protocol):
    """Workspace heads, which checkpointers alone write."""

    async def head(self, tenant: str, session: str) -> WorkspaceHead | None:
        """Return a session's workspace head, as the leader has it; None: nothing was ever saved.

        Raises:
            Unavailable: no answer.
        """
        ...


class Keepers(Protocol):
    """Whichever checkpointer is up."""

    async def keep(self, op: str, question: msgspec.Struct) -> KeeperAnswer:
        """Ask for what needs no pod.

        Raises:
            ServiceError: what the checkpointer says.
            Unavailable: none is up.
            OutcomeUnknown: no answer in time: it may be done; asked again it does no harm.
        """
        ...
