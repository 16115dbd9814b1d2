"""Files of the workspace on their way: objects by reference, and snapshots."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Protocol

from shared.files import ObjectRef
from shared.record import Record
from shared.workspace import SnapshotRef
from worker_agent.ports.session import Held


class ObjectSink(Protocol):
    """A new object. Each call may raise a ServiceError; what was not closed is nothing."""

    async def write(self, data: bytes) -> None:
        """Add content."""
        ...

    async def close(self) -> ObjectRef:
        """Store the rest; return the reference."""
        ...

    async def abandon(self) -> None:
        """End what is on the way."""
        ...


class Objects(Protocol):
    """One tenant's objects."""

    def read(self, reference: ObjectRef) -> AsyncGenerator[bytes, None]:
        """Yield an object's content; raises a ServiceError where it is not what the reference says."""
        ...

    def writer(self) -> ObjectSink:
        """Return what stores a new object."""
        ...


class Workspaces(Protocol):
    """The workspace's snapshots, as the node's checkpointer makes and restores them.

    Its calls raise StaleEpoch (another owner has the session), LimitExceeded (names path and limit), NotFound or
    InvalidMessage (a snapshot that is gone, or damaged), or another ServiceError: later, perhaps.
    """

    @property
    def waits(self) -> tuple[str, int]:
        """Why what is asked takes its time (the checkpointer, or its store, does not answer), and since when, wall clock,
        milliseconds; empty and 0: it does not."""
        ...

    async def save(
        self,
        held: Held,
        task: str,
        *,
        base: SnapshotRef | None,
        on_scanned: Callable[[], Awaitable[None]],
        left_s: float,
    ) -> SnapshotRef | None:
        """Save the workspace, which was last restored from or saved as `base`.

        `on_scanned` is awaited once user code may go on. Returns None where it is empty and always was.
        """
        ...

    async def restore(
        self,
        held: Held,
        task: str,
        snapshot: SnapshotRef,
        *,
        left_s: float,
    ) -> None:
        """Fill the workspace."""
        ...

    async def retain(self, record: Record, task: str, wanted: str, *, left_s: float) -> SnapshotRef:
        """Find a snapshot of the session, by name, id or the beginning of its id; no collection takes it from now on."""
        ...

    def mark(self, record: Record, task: str) -> None:
        """Say, for whoever rescues it, that the workspace is whole, and which task has done something in it (or none)."""
        ...

    def unmark(self) -> None:
        """Say that it is of no use any more."""
        ...


class Volumes(Protocol):
    """The volume that the pods of a pool share."""

    async def take(self, record: Record, *, left_s: float) -> None:
        """Have the session's files in this pod's workspace; asked twice, it is done once.

        Raises:
            StaleEpoch: another owner has the session.
            ServiceError: not now.
        """
        ...
