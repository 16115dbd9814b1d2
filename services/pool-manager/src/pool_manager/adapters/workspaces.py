"""Workspace heads over the state streams, and checkpointers over their subjects."""

from __future__ import annotations

import msgspec

from shared import messages, subjects
from shared.bus import Bus
from shared.errors import error_of
from shared.ids import home
from shared.snapshots import KeeperAnswer
from shared.workspace import WorkspaceHead

READ_S = 0.5
KEEP_S = 4.0
"""A pin or a name is a read and a write of a workspace head."""
LOOK_S = 25.0
"""A checkpointer looks into snapshots for 20 s at most."""


class StreamHeads:
    """Implements `ports.workspaces.Heads`."""

    def __init__(self, bus: Bus) -> None:
        """Use the service's connection."""
        self._bus = bus

    async def head(self, tenant: str, session: str) -> WorkspaceHead | None:
        """Return a session's workspace head."""
        stored = await self._bus.read_last(
            subjects.state_stream(home(session)),
            subjects.workspace_head("*", tenant, session),
            timeout_s=READ_S,
        )
        return None if stored is None else messages.decode(stored.data, WorkspaceHead)


class BusKeepers:
    """Implements `ports.workspaces.Keepers`."""

    def __init__(self, bus: Bus) -> None:
        """Use the service's connection."""
        self._bus = bus

    async def keep(self, op: str, question: msgspec.Struct) -> KeeperAnswer:
        """Ask whichever checkpointer is up."""
        said = await self._bus.request(
            subjects.any_checkpointer(op),
            messages.encode(question),
            timeout_s=LOOK_S if op == "diff" else KEEP_S,
        )
        answer = messages.decode(said.data, KeeperAnswer)
        if answer.error is not None:
            raise error_of(answer.error)
        return answer
