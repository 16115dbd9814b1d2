"""What a session's holder and its tasks ask of whoever keeps its files: `keep_files`, in snapshots, or `keep_volume`."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol

from shared.pools import OnInterrupt
from shared.record import Record
from shared.workspace import SnapshotRef
from worker_agent.core.kept import Beginning, Kept
from worker_agent.loops.waiting import NotWaited
from worker_agent.ports import Held


class Files(Protocol):
    """One session's files for as long as this worker owns it."""

    on_volume: bool
    """They are never rolled back."""
    doing: Literal["restoring", "saving"] | None
    useless: bool
    """The workspace holds what is nobody's: the session is given back as its record says it is."""

    @property
    def reason(self) -> tuple[str, int]:
        """Why files can't be had or saved now, and since when (wall clock, milliseconds); empty: they can."""
        ...

    @property
    def unsaved_bytes(self) -> int | None:
        """What the death of the node would take of the task in hand; None: that is not known."""
        ...

    def leave(self) -> None:
        """The worker is to leave."""
        ...

    def cancel(self) -> None:
        """The task in hand is cancelled: it waits for its files no more."""
        ...

    async def begin(
        self, held: Held, task: str, rule: OnInterrupt, left_s: float
    ) -> Beginning | NotWaited:
        """Make the workspace what a task begins with."""
        ...

    def checkpoints(self, held: Held, task: str) -> AbstractAsyncContextManager[None]:
        """While inside, save the workspace every now and then, where that is done."""
        ...

    async def save(self, held: Held, task: str, *, read_only: bool) -> Kept:
        """Save what a task left behind, before its result is committed."""
        ...

    async def find(self, held: Held, task: str, wanted: str, left_s: float) -> SnapshotRef:
        """Return the snapshot that the record is to go back to."""
        ...

    def committed(self, record: Record) -> None:
        """A task's result is stored: the workspace holds nothing in part."""
        ...

    def spoil(self) -> None:
        """What is in the workspace is nobody's."""
        ...

    async def rest(self, held: Held) -> Record:
        """Return the record to release, what the workspace holds in safety."""
        ...

    async def taken_back(self, held: Held) -> None:
        """The session that was about to be released goes on here."""
        ...
