"""Whole directories of a workspace, for programs without an event loop."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Unpack, cast

from agent_sandbox.objects import OnProgress, Writable
from agent_sandbox.orders import TaskOptions
from agent_sandbox.results import Result
from agent_sandbox.session import Session
from agent_sandbox.sync.parts import as_source
from agent_sandbox.sync.portal import Portal
from agent_sandbox.trees import TreeSource
from agent_sandbox.unpacking import Unpacked

SyncTreeSource = Path | BinaryIO | Iterator[bytes]
"""A folder of this machine, or what yields a tar archive: an open binary file, or pieces."""


class SyncTreeSession:
    """What a session offers of whole directories."""

    _portal: Portal
    _session: Session

    def upload_tree(
        self,
        source: SyncTreeSource,
        path: str = ".",
        *,
        on_progress: OnProgress | None = None,
        **options: Unpack[TaskOptions],
    ) -> Result:
        """Copy a folder's content into a directory of the workspace; see `Session.upload_tree`.

        Args:
            source: a folder of this machine, or what yields a tar archive (not compressed).
            path: the directory; the workspace itself where absent.
            on_progress: called on the client's own thread: it must not call the client.
            options: see `TaskOptions`.

        Raises:
            ServiceError: as `Session.upload_tree`.
        """
        given = cast(TreeSource, as_source(source))
        work = self._session.upload_tree(given, path, on_progress=on_progress, **options)
        return self._portal.call(work)

    def download_tree(
        self,
        path: str,
        to: Path | Writable,
        *,
        snapshot: str | None = None,
        on_progress: OnProgress | None = None,
        **options: Unpack[TaskOptions],
    ) -> Unpacked | None:
        """Copy a directory of the workspace, or a file, into a new folder; see `Session.download_tree`.

        Args:
            path: which; `.` is the whole workspace.
            to: a folder of this machine that is not there yet or is empty, or an open binary file, which gets a tar archive.
            snapshot: as it was then: a snapshot's name, its id, or the beginning of its id; None: as it is now.
            on_progress: called on the client's own thread: it must not call the client.
            options: see `TaskOptions`.

        Returns:
            What was written; None where it went into a file.

        Raises:
            ServiceError: as `Session.download_tree`.
        """
        work = self._session.download_tree(
            path, to, snapshot=snapshot, on_progress=on_progress, **options
        )
        return self._portal.call(work)
