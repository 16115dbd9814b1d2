"""The system under test as faults see it: an embedded cluster, with its folder, its processes and its streams."""

from __future__ import annotations

from typing import Protocol

from agent_sandbox.embedded.folder import Folder
from agent_sandbox.embedded.table import Kind, Row
from chaos.ports.ground import Ground
from shared.bus import Bus


class Site(Protocol):
    """One embedded cluster, private to a run."""

    @property
    def folder(self) -> Folder:
        """Its state folder; whoever faults it may touch all that lies there."""
        ...

    @property
    def admin(self) -> Bus:
        """A connection that may do everything."""
        ...

    @property
    def ground(self) -> Ground:
        """What was laid before it came up."""
        ...

    def now(self) -> float:
        """Return the injector's clock: seconds since the run began, monotonic."""
        ...

    def rows(self, kind: Kind) -> list[Row]:
        """Return what the supervisor keeps, of a kind: servers, nodes, managers, checkpointers, gateways, edges.

        Raises:
            Unavailable: its table is gone.
        """
        ...

    async def leaders(self, *streams: str) -> dict[str, str]:
        """Return the server that leads each of the streams; those whose leader is not known are left out."""
        ...

    async def behind(self, server: str) -> list[str]:
        """Return the streams of which a server does not have all that their leaders have.

        Raises:
            ServiceError: nobody can say.
        """
        ...

    def hold(self) -> None:
        """Let the supervisor start nothing again from now on. Holds are counted."""
        ...

    def release(self) -> None:
        """Take one hold back; after the last one the supervisor starts again what is dead."""
        ...
