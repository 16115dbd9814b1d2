"""A session that stays open: its tasks run one after another in one sandbox, which keeps files and interpreter."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path as FilePath
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from agent_sandbox.halves import Halves
from agent_sandbox.made import Made
from agent_sandbox.objects import OnProgress, Source, Writable, mode_of
from agent_sandbox.orders import (
    Content,
    ProgramOptions,
    TaskOptions,
    common_fields,
    program_task,
)
from agent_sandbox.results import Result
from agent_sandbox.running import RunningTask, finish
from agent_sandbox.sitting import TerminalSession
from agent_sandbox.trees import TreeSession
from shared import limits
from shared.errors import InvalidMessage, ServiceError
from shared.files import FileEntry
from shared.task import Close, InputFile, ListFiles, ReadFile, RemoveFile, Task, WriteFile
from shared.views import SessionAnswer, ShowAsk

if TYPE_CHECKING:
    from agent_sandbox.client import Client

LEAVE_S = 3.0
"""Longest wait for a session's end on an error's way out."""
FILE_BYTES_MAX = 64 * 1024 * 1024
"""Largest file that `read` puts together."""


class Session(TerminalSession, TreeSession):
    """One session. As a context manager it is closed at the end."""

    def __init__(self, client: Client, session_id: str, *, opened: Result | None = None) -> None:
        """Name a session; `Client.create_session` makes one."""
        self._client = client
        self.id = session_id
        self.opened = opened
        """Result of its creation, where this client created it."""

    def __repr__(self) -> str:
        """Name it."""
        return f"Session({self.id!r})"

    async def __aenter__(self) -> Self:
        """Return the session."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it; on an error's way out without waiting for the tasks before, for a few seconds at most."""
        if exc is None:
            await self.close()
            return
        with suppress(
            ServiceError
        ):  # the error inside is what counts; a session that stays is ended by its pool
            closing = await self._publish(Close(), {})
            await finish(closing, cancel_with_caller=False, wait_s=LEAVE_S)

    # --- programs --------------------------------------------------------------------------------------------------

    async def exec(
        self,
        argv: Sequence[str] | str,
        *,
        cancel_with_caller: bool = False,
        wait_s: float | None = None,
        **options: Unpack[ProgramOptions],
    ) -> Result:
        """Run a program, or a line for `/bin/sh -c` where a string is given, and return its result.

        Args:
            argv: the program and its arguments, or a shell line.
            cancel_with_caller: cancel the task when the awaiting coroutine is cancelled; else it goes on.
            wait_s: longest wait for the result once the task is accepted, seconds; None: by its deadline.
            options: see `ProgramOptions`.

        Raises:
            InvalidMessage: the task breaks a limit (named); it was not published.
            OutcomeUnknown: it may have been accepted, but no answer came.
            NoResultYet: no result within the wait (a `TimeoutError`, too); the task goes on.
        """
        running = await self.start(argv, **options)
        return await finish(running, cancel_with_caller=cancel_with_caller, wait_s=wait_s)

    async def start(
        self, argv: Sequence[str] | str, **options: Unpack[ProgramOptions]
    ) -> RunningTask:
        """Publish a program and return it as soon as it is accepted; for streaming and cancelling.

        Raises:
            InvalidMessage: the task breaks a limit (named); it was not published.
            OutcomeUnknown: no answer; it may have been accepted.
        """
        async with self._client.objects.carried(options) as carried:
            return await self._publish(program_task(argv, carried), carried)

    async def python(
        self,
        code: str,
        *,
        cancel_with_caller: bool = False,
        wait_s: float | None = None,
        **options: Unpack[TaskOptions],
    ) -> Result:
        """Run code in the session's interpreter, whose variables live on from task to task.

        Raises:
            InvalidMessage: the task breaks a limit (named); it was not published.
            OutcomeUnknown: it may have been accepted, but no answer came.
            NoResultYet: no result within the wait (a `TimeoutError`, too); the task goes on.
        """
        running = await self.start_python(code, **options)
        return await finish(running, cancel_with_caller=cancel_with_caller, wait_s=wait_s)

    async def start_python(self, code: str, **options: Unpack[TaskOptions]) -> RunningTask:
        """Publish code and return the task as soon as it is accepted.

        Raises:
            InvalidMessage: the task breaks a limit (named); it was not published.
            OutcomeUnknown: no answer; it may have been accepted.
        """
        async with self._client.objects.carried(options) as carried:
            return await self._publish(program_task(None, {**carried, "code": code}), carried)

    # --- files -----------------------------------------------------------------------------------------------------

    async def write(self, path: str, content: Content, **options: Unpack[TaskOptions]) -> Result:
        """Write a file into the workspace, of any size; `upload` tells how far it is.

        Raises:
            TaskFailed: it could not be written.
            InvalidMessage: it can't be read; it was not published.
            LimitExceeded: too large for an object, or the object store is full.
        """
        async with self._client.objects.carried({**options, "files": {path: content}}) as carried:
            running = await self._publish(WriteFile(**common_fields(carried)), carried)
        return (await finish(running, cancel_with_caller=False)).check()

    async def upload(
        self,
        source: Source,
        path: str,
        *,
        on_progress: OnProgress | None = None,
        **options: Unpack[TaskOptions],
    ) -> Result:
        """Copy content of any size into the workspace, at the memory of a few chunks.

        Args:
            source: a file of this machine, bytes, an open binary file, or whatever yields bytes.
            path: where in the workspace.
            on_progress: called with bytes done and in all; a byte counts half when the object store has it, and
                wholly when it is in the workspace.
            options: see `TaskOptions`.

        Raises:
            TaskFailed: it could not be written.
            ServiceError: it could not be stored; see `Objects.put`.
        """
        halves, mode = Halves(on_progress), await asyncio.to_thread(mode_of, source)
        reference = await self._client.objects.put(source, on_progress=halves.first)
        made = Made(reference.id)
        file = InputFile(path=path, object=reference, mode=mode)
        asked = {**options, "files": {path: file}, "made": made}
        async with self._client.objects.given_back(made):
            running = await self._publish(WriteFile(**common_fields(asked)), asked)
        return await halves.input(running, reference)

    async def download(
        self,
        path: str,
        to: FilePath | Writable,
        *,
        on_progress: OnProgress | None = None,
        **options: Unpack[TaskOptions],
    ) -> Result:
        """Copy a file of any size out of the workspace, at the memory of a few chunks.

        Args:
            path: which.
            to: a file of this machine, replaced only by the whole content, or an open binary file.
            on_progress: called with bytes done and in all; a byte counts half when the object store has it.
            options: see `TaskOptions`.

        Raises:
            TaskFailed: it could not be read.
            ServiceError: it could not be fetched; see `Objects.get`.
        """
        halves = Halves(on_progress)
        task = ReadFile(path=path, as_object=True, **common_fields(options))
        running = await self._publish(task, options)
        async with halves.output(running, self._client.objects) as (result, reference):
            await self._client.objects.get(reference, to, on_progress=halves.second)
        return result

    async def read(self, path: str, **options: Unpack[TaskOptions]) -> bytes:
        """Return a file's content, read in pieces where it is large.

        Raises:
            TaskFailed: it could not be read.
            InvalidMessage: larger than FILE_BYTES_MAX.
        """
        pieces: list[bytes] = []
        offset, size = 0, 1
        while offset < size:
            result = await self._do(
                ReadFile(
                    path=path, offset=offset, limit=limits.READ_BYTES_MAX, **common_fields(options)
                ),
                options,
            )
            size = result.raw.size or 0
            if size > FILE_BYTES_MAX:
                raise InvalidMessage(f"{path}: {size} bytes, read takes {FILE_BYTES_MAX}")
            if not result.data:
                break
            pieces.append(result.data)
            offset += len(result.data)
        return b"".join(pieces)

    async def list(self, path: str = ".", **options: Unpack[TaskOptions]) -> tuple[FileEntry, ...]:
        """Return the entries of a directory, at most `limits.LIST_ENTRIES_MAX`.

        Raises:
            TaskFailed: it could not be listed.
        """
        return (await self._do(ListFiles(path=path, **common_fields(options)), options)).entries

    async def remove(
        self, path: str, *, recursive: bool = False, **options: Unpack[TaskOptions]
    ) -> Result:
        """Remove a file, or a directory with what is in it if `recursive`.

        Raises:
            TaskFailed: it could not be removed.
        """
        return await self._do(
            RemoveFile(path=path, recursive=recursive, **common_fields(options)), options
        )

    # --- the session -----------------------------------------------------------------------------------------------

    async def show(self) -> SessionAnswer:
        """Return what the session's record says.

        Raises:
            NotFound: there is no such session, or no pool-manager is up.
            OutcomeUnknown: no answer in time.
        """
        return await self._client.ask("session", ShowAsk(session=self.id), SessionAnswer)

    async def close(self, *, wait_s: float | None = None) -> Result:
        """End the session: its pod goes, it takes nothing more. Closing a session that has ended does nothing.

        It comes behind the tasks that the session still has, as the order of tasks says: a program in a terminal, also one
        that was left by `detach`, is hung up or cancelled first, or closing waits for its end.

        Args:
            wait_s: longest wait for the end once the order to close is accepted, seconds; None: by its deadline.

        Raises:
            OutcomeUnknown: it may have been accepted, but no answer came.
            NoResultYet: not closed within the wait (a `TimeoutError`, too); it will be, behind what it still has to do.
        """
        closing = await self._publish(Close(), {})
        return await finish(closing, cancel_with_caller=False, wait_s=wait_s)

    async def _publish(self, task: Task, options: Mapping[str, Any]) -> RunningTask:
        return await self._client.publish_next(self.id, task, options)

    async def _do(self, task: Task, options: Mapping[str, Any]) -> Result:
        """Publish a file operation and return its result, which must be `ok`."""
        return (await finish(await self._publish(task, options), cancel_with_caller=False)).check()
