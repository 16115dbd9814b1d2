"""What takes snapshots of workspaces and writes them back, as the checkpointer's loops ask for it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Protocol

import msgspec

from shared.errors import ServiceError
from shared.workspace import JOB_ENDS, JobState, Mark, SnapshotRef

_ORDER: tuple[JobState, ...] = ("running", "scanned", "gate_open", "done", "failed")


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A workspace of this node, and whose it is."""

    pod: str
    tenant: str
    session: str


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """Under what a snapshot is taken; stands in it."""

    epoch: int
    task: str = ""
    position: int = 0
    """Inbox sequence up to which all tasks are done."""
    exclude: tuple[str, ...] = ()
    """Patterns of files that it does not hold."""


class Progress:
    """How far a job is. The figures may be written by any thread, the state by the event loop's alone."""

    def __init__(self) -> None:
        """Begin."""
        self.state: JobState = "running"
        self.done_bytes = 0
        self.total_bytes = 0
        self.done_entries = 0
        self.total_entries = 0
        self.torn: tuple[str, ...] = ()
        """Paths that changed while they were read."""
        self.bad: list[ServiceError] = []
        """What a save found of its parent: packs that are damaged or gone. It went on without them."""
        self._moved = asyncio.Event()

    def reach(self, state: JobState) -> None:
        """Go on to a state; never back."""
        if _ORDER.index(state) > _ORDER.index(self.state):
            self.state = state
            self._moved.set()
            self._moved = asyncio.Event()

    async def beyond(self, known: JobState | None, timeout_s: float) -> None:
        """Return when there is another state than what the asker knows, after `timeout_s` seconds at the latest."""
        old = "running" if known is None else known
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self.state == old and self.state not in JOB_ENDS:
                    await self._moved.wait()


class Engine(Protocol):
    """Snapshots of this node's workspaces."""

    async def save(
        self, place: Place, owner: Owner, parent: SnapshotRef | None, progress: Progress
    ) -> SnapshotRef | None:
        """Store a snapshot of a workspace and return it; the parent itself where nothing has changed.

        None: there was no parent, and the workspace is empty.

        `progress` reaches `scanned` as soon as nothing of the live tree is needed any more.

        Raises:
            LimitExceeded: a bound of snapshots, or the store's (named, with the path).
            Damaged, NotFound: the parent is not what was stored, or not there.
            Unavailable: there is no such workspace.
            Unavailable, OutcomeUnknown: the store.
        """
        ...

    async def mark(self, pod: str) -> Mark | None:
        """Return what a pod's worker said last of its workspace; None: nothing that can be read.

        Raises:
            InvalidMessage: no pod is called so.
        """
        ...

    async def restore(self, place: Place, snapshot: SnapshotRef, progress: Progress) -> None:
        """Write a snapshot into a workspace in place of all that is in it: an attempt may have been broken off before.

        Raises:
            LimitExceeded: the disk has no room.
            NotFound: the snapshot or a part of it is not there.
            Damaged: it is not what was stored.
            Unavailable: the store, now.
        """
        ...
