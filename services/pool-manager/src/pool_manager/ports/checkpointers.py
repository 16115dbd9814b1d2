"""The nodes' checkpointers, as pool-managers ask them."""

from __future__ import annotations

from typing import Protocol

from shared.workspace import CheckpointAnswer, CheckpointAsk


class Checkpointers(Protocol):
    """Asks a node's checkpointer."""

    async def look(self, node: str, ask: CheckpointAsk) -> CheckpointAnswer:
        """Ask whether a dead pod's workspace is whole: `done` or `failed`, within the seconds that the ask leaves.

        Raises:
            Unavailable: nobody listens there.
            OutcomeUnknown: no answer in time.
        """
        ...

    async def rescue(self, node: str, ask: CheckpointAsk) -> CheckpointAnswer:
        """Ask for a rescue, or how far it is; asking twice under one id begins it once.

        Raises:
            Unavailable: nobody listens there.
            OutcomeUnknown: no answer in time.
        """
        ...
