"""Snapshots of a session's workspace, for programs without an event loop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Self, Unpack

from agent_sandbox.orders import TaskOptions
from agent_sandbox.results import Result
from agent_sandbox.session import Session
from agent_sandbox.sync.portal import Portal
from shared.snapshots import DiffRow, SnapshotRow


class SyncKeptSession:
    """What a session offers of its snapshots."""

    _portal: Portal
    _session: Session

    if TYPE_CHECKING:

        def __init__(self, portal: Portal, session: Session) -> None:
            """Be made by `SyncSession`."""

    def hibernate(
        self, *, wait_s: float | None = None, **options: Unpack[TaskOptions]
    ) -> Result | None:
        """Save the workspace and give the session's pod back; see `Session.hibernate`.

        Raises:
            ServiceError: as `Session.hibernate`.
        """
        return self._portal.call(self._session.hibernate(wait_s=wait_s, **options))

    def resume(self, *, wait_s: float | None = None, **options: Unpack[TaskOptions]) -> Result:
        """Wake the session: when this returns, a worker has it, with its files.

        Raises:
            ServiceError: as `Session.resume`.
        """
        return self._portal.call(self._session.resume(wait_s=wait_s, **options))

    def rollback(
        self, snapshot: str, *, wait_s: float | None = None, **options: Unpack[TaskOptions]
    ) -> Result:
        """Go back to a snapshot; see `Session.rollback`.

        Args:
            snapshot: its name, its id, or the beginning of its id.
            wait_s: longest wait once it is accepted, seconds; None: by its deadline.
            options: see `TaskOptions`.

        Raises:
            ServiceError: as `Session.rollback`.
        """
        return self._portal.call(self._session.rollback(snapshot, wait_s=wait_s, **options))

    def fork(self, snapshot: str | None = None, *, session_id: str | None = None) -> Self:
        """Make a session that begins with a snapshot of this one, and return it; see `Session.fork`.

        Args:
            snapshot: its name, its id, or the beginning of its id; None: what the last completed task left behind.
            session_id: id of the new session, a UUID or ULID; made where absent. The same id is the same session.

        Raises:
            ServiceError: as `Session.fork`.
        """
        made = self._portal.call(self._session.fork(snapshot, session_id=session_id))
        return type(self)(self._portal, made)

    def snapshots(self) -> tuple[SnapshotRow, ...]:
        """Return the snapshots that the session keeps, the newest first.

        Raises:
            ServiceError: as `Session.snapshots`.
        """
        return self._portal.call(self._session.snapshots())

    def name_snapshot(self, snapshot: str, name: str) -> SnapshotRow:
        """Keep a snapshot by a name, until the name is taken away: by an empty one.

        Args:
            snapshot: its name, its id, or the beginning of its id.
            name: letters, digits, `.`, `_` and `-`; empty: none.

        Raises:
            ServiceError: as `Session.name_snapshot`.
        """
        return self._portal.call(self._session.name_snapshot(snapshot, name))

    def diff(self, before: str, after: str | None = None) -> Iterator[DiffRow]:
        """Yield how two snapshots differ, path by path.

        Args:
            before: the older one: its name, its id, or the beginning of its id.
            after: the newer one; None: what the last completed task left behind.

        Raises:
            ServiceError: as `Session.diff`.
        """
        return self._portal.iterate(self._session.diff(before, after))
