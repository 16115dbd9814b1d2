"""`SyncSession`: a session that stays open, for programs without an event loop."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, Unpack

from agent_sandbox.objects import OnProgress, Writable
from agent_sandbox.orders import Content, ProgramOptions, ShellOptions, TaskOptions
from agent_sandbox.results import Result
from agent_sandbox.session import Session
from agent_sandbox.sync.keeping import SyncKeptSession
from agent_sandbox.sync.parts import SyncSource, SyncTask, as_source
from agent_sandbox.sync.portal import Portal
from agent_sandbox.sync.shell import SyncShell
from agent_sandbox.sync.trees import SyncTreeSession
from shared.files import FileEntry
from shared.views import SessionAnswer


class SyncSession(SyncTreeSession, SyncKeptSession):
    """One session. As a context manager it is closed at the end."""

    def __init__(self, portal: Portal, session: Session) -> None:
        """Wrap a session; `SyncClient.create_session` makes one."""
        self._portal = portal
        self._session = session

    def __repr__(self) -> str:
        """Name it."""
        return f"Sync{self._session!r}"

    @property
    def id(self) -> str:
        """Its id."""
        return self._session.id

    @property
    def opened(self) -> Result | None:
        """Result of its creation, where this client created it."""
        return self._session.opened

    def __enter__(self) -> Self:
        """Return the session."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it; on an error's way out without waiting for the tasks before."""
        self._portal.call(self._session.__aexit__(kind, exc, trace))

    # --- programs --------------------------------------------------------------------------------------------------

    def exec(
        self,
        argv: Sequence[str] | str,
        *,
        cancel_with_caller: bool = True,
        wait_s: float | None = None,
        **options: Unpack[ProgramOptions],
    ) -> Result:
        """Run a program, or a line for `/bin/sh -c` where a string is given, and return its result.

        Args:
            argv: the program and its arguments, or a shell line.
            cancel_with_caller: cancel the task when the call is interrupted; else it goes on.
            wait_s: longest wait for the result once the task is accepted, seconds; None: by its deadline.
            options: see `ProgramOptions`.

        Raises:
            InvalidMessage: the task breaks a limit (named); it was not published.
            OutcomeUnknown: it may have been accepted, but no answer came.
            NoResultYet: no result within the wait (a `TimeoutError`, too); the task goes on.
        """
        work = self._session.exec(
            argv, cancel_with_caller=cancel_with_caller, wait_s=wait_s, **options
        )
        return self._portal.call(work)

    def start(self, argv: Sequence[str] | str, **options: Unpack[ProgramOptions]) -> SyncTask:
        """Publish a program and return it as soon as it is accepted; for streaming and cancelling.

        Raises:
            ServiceError: as `Session.start`.
        """
        return SyncTask(self._portal, self._portal.call(self._session.start(argv, **options)))

    def python(
        self,
        code: str,
        *,
        cancel_with_caller: bool = True,
        wait_s: float | None = None,
        **options: Unpack[TaskOptions],
    ) -> Result:
        """Run code in the session's interpreter, whose variables live on from task to task; else as `exec`.

        Raises:
            ServiceError: as `exec`.
        """
        work = self._session.python(
            code, cancel_with_caller=cancel_with_caller, wait_s=wait_s, **options
        )
        return self._portal.call(work)

    def start_python(self, code: str, **options: Unpack[TaskOptions]) -> SyncTask:
        """Publish code and return the task as soon as it is accepted.

        Raises:
            ServiceError: as `Session.start_python`.
        """
        work = self._session.start_python(code, **options)
        return SyncTask(self._portal, self._portal.call(work))

    # --- terminals -------------------------------------------------------------------------------------------------

    def shell(
        self, argv: Sequence[str] | str | None = None, **options: Unpack[ShellOptions]
    ) -> SyncShell:
        """Run a program in a terminal (`with session.shell() as shell`): a shell where none is named.

        The session's other tasks wait until it has ended. It ends as `interrupted` when its worker is lost.

        Args:
            argv: the program and its arguments, or a shell line.
            options: see `ShellOptions`.
        """
        return SyncShell(self._portal, lambda: self._session.shell(argv, **options))

    def attach(self, task_id: str | None = None, *, replay: bool = False) -> SyncShell:
        """Come back to a terminal in which a program runs; several may sit before one.

        Args:
            task_id: its task; None: the one that the session runs now.
            replay: begin with what is stored of its output, not with what comes next.
        """
        return SyncShell(self._portal, lambda: self._session.attach(task_id, replay=replay))

    # --- files -----------------------------------------------------------------------------------------------------

    def write(self, path: str, content: Content, **options: Unpack[TaskOptions]) -> Result:
        """Write a file into the workspace, of any size; `upload` tells how far it is.

        Raises:
            TaskFailed: it could not be written.
            InvalidMessage: it can't be read; it was not published.
            LimitExceeded: too large for an object, or the object store is full.
        """
        return self._portal.call(self._session.write(path, content, **options))

    def upload(
        self,
        source: SyncSource,
        path: str,
        *,
        on_progress: OnProgress | None = None,
        **options: Unpack[TaskOptions],
    ) -> Result:
        """Copy content of any size into the workspace, at the memory of a few chunks; see `Session.upload`.

        Args:
            source: a file of this machine, bytes, an open binary file, or whatever yields bytes.
            path: where in the workspace.
            on_progress: called on the client's own thread: it must not call the client.
            options: see `TaskOptions`.

        Raises:
            ServiceError: as `Session.upload`.
        """
        work = self._session.upload(as_source(source), path, on_progress=on_progress, **options)
        return self._portal.call(work)

    def download(
        self,
        path: str,
        to: Path | Writable,
        *,
        on_progress: OnProgress | None = None,
        **options: Unpack[TaskOptions],
    ) -> Result:
        """Copy a file of any size out of the workspace, at the memory of a few chunks; see `Session.download`.

        Args:
            path: which.
            to: a file of this machine, replaced only by the whole content, or an open binary file.
            on_progress: called on the client's own thread: it must not call the client.
            options: see `TaskOptions`.

        Raises:
            ServiceError: as `Session.download`.
        """
        work = self._session.download(path, to, on_progress=on_progress, **options)
        return self._portal.call(work)

    def read(self, path: str, **options: Unpack[TaskOptions]) -> bytes:
        """Return a file's content, read in pieces where it is large.

        Raises:
            TaskFailed: it could not be read.
            InvalidMessage: larger than FILE_BYTES_MAX.
        """
        return self._portal.call(self._session.read(path, **options))

    def list(self, path: str = ".", **options: Unpack[TaskOptions]) -> tuple[FileEntry, ...]:
        """Return the entries of a directory, at most `limits.LIST_ENTRIES_MAX`.

        Raises:
            TaskFailed: it could not be listed.
        """
        return self._portal.call(self._session.list(path, **options))

    def remove(
        self, path: str, *, recursive: bool = False, **options: Unpack[TaskOptions]
    ) -> Result:
        """Remove a file, or a directory with what is in it if `recursive`.

        Raises:
            TaskFailed: it could not be removed.
        """
        return self._portal.call(self._session.remove(path, recursive=recursive, **options))

    # --- the session -----------------------------------------------------------------------------------------------

    def show(self) -> SessionAnswer:
        """Return what the session's record says.

        Raises:
            ServiceError: as `Session.show`.
        """
        return self._portal.call(self._session.show())

    def close(self, *, wait_s: float | None = None) -> Result:
        """End the session: its pod goes, it takes nothing more. Closing a session that has ended does nothing.

        It comes behind the tasks that the session still has, as the order of tasks says: a program in a terminal, also one
        that was left by `detach`, is hung up or cancelled first, or closing waits for its end.

        Args:
            wait_s: longest wait for the end once the order to close is accepted, seconds; None: by its deadline.

        Raises:
            ServiceError: as `Session.close`.
        """
        return self._portal.call(self._session.close(wait_s=wait_s))
