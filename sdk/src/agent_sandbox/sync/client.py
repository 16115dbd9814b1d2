"""`SyncClient`: connects, publishes tasks, waits for results, for programs without an event loop."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import msgspec

from agent_sandbox.access import ClientOptions
from agent_sandbox.attaching import AttachOptions
from agent_sandbox.client import Client
from agent_sandbox.orders import RunOptions, SessionOptions
from agent_sandbox.results import Result
from agent_sandbox.sync.parts import SyncDeadLetters, SyncObjects, SyncTask
from agent_sandbox.sync.portal import Portal
from agent_sandbox.sync.session import SyncSession
from shared.messages import CancelAnswer
from shared.task import Task

T = TypeVar("T")


class SyncClient:
    """Publishes tasks and reads what became of them. One connection, shared by all threads of the process.

    ```python
    with SyncClient() as client:
        result = client.run(["python3", "-c", "print(6 * 7)"])
        print(result.stdout, result.tti_s)
    ```

    Where a call is interrupted (`KeyboardInterrupt`), the task it waits for is cancelled, as `subprocess.run` ends its
    child; `cancel_with_caller=False` lets it go on.
    """

    def __init__(self, options: ClientOptions | None = None) -> None:
        """Connect nowhere yet: `with`, or `connect`, does.

        Args:
            options: where to connect; see `Client`.
        """
        self._client = Client(options)
        self._portal: Portal | None = None

    def __repr__(self) -> str:
        """Say where it connects, without what is secret."""
        return f"Sync{self._client!r}"

    def connect(self) -> Self:
        """Connect, where `with` does not suit; `close` is then to be called.

        Raises:
            Rejected: no cluster in the state folder, no credential file.
            Forbidden: the servers refuse the credential, the gateways the token.
            Unavailable: no server or gateway could be reached.
            RuntimeError: it is connected.
        """
        if self._portal is not None:
            raise RuntimeError("the client is connected")
        portal = Portal()
        try:
            portal.call(self._client.__aenter__())
        except BaseException:
            portal.stop()
            raise
        self._portal = portal
        weakref.finalize(self, portal.stop)
        return self

    def close(self) -> None:
        """Close the connection. Tasks go on; other threads that wait for one are told so (`NoResultYet`)."""
        portal, self._portal = self._portal, None
        if portal is None or not portal.is_ours:
            return
        try:
            portal.call(self._client.__aexit__(None, None, None))
        finally:
            portal.stop()

    def __enter__(self) -> Self:
        """Connect; see `connect`."""
        return self.connect()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connection; tasks go on."""
        self.close()

    @property
    def options(self) -> ClientOptions:
        """How it connects."""
        return self._client.options

    @property
    def portal(self) -> Portal:
        """Where its calls run.

        Raises:
            RuntimeError: it is not connected.
        """
        if self._portal is None:
            raise RuntimeError("use the client in `with SyncClient() as client:`")
        return self._portal

    @property
    def dead_letters(self) -> SyncDeadLetters:
        """This tenant's dead letters: tasks that could not be read, or killed their workers."""
        return SyncDeadLetters(self.portal, self._client.dead_letters)

    @property
    def objects(self) -> SyncObjects:
        """Content of any size by reference, such as the outputs that a result names."""
        return SyncObjects(self.portal, self._client)

    def run(
        self,
        argv: Sequence[str] | str | None = None,
        *,
        cancel_with_caller: bool = True,
        wait_s: float | None = None,
        **options: Unpack[RunOptions],
    ) -> Result:
        """Run a program, a shell line (`shell=`) or Python code (`code=`) in a fresh sandbox and return its result.

        A command that fails is a result, not an exception: see `Result.check`.

        Args:
            argv: the program and its arguments; a text is a shell line, as `shell=`.
            cancel_with_caller: cancel the task when the call is interrupted; else it goes on.
            wait_s: longest wait for the result once the task is accepted, seconds; None: by its deadline.
            options: see `RunOptions`.

        Raises:
            InvalidMessage: the task breaks a limit (named); it was not published.
            Rejected: no such pool, lane full; it was not accepted.
            OutcomeUnknown: it may have been accepted, but no answer came.
            NoResultYet: no result within the wait (a `TimeoutError`, too); the task goes on.
        """
        portal = self.portal
        work = self._client.run(
            argv, cancel_with_caller=cancel_with_caller, wait_s=wait_s, **options
        )
        return portal.call(work)

    def start(
        self, argv: Sequence[str] | str | None = None, **options: Unpack[RunOptions]
    ) -> SyncTask:
        """Publish a one-shot and return it as soon as it is accepted; for streaming and cancelling.

        Raises:
            ServiceError: as `Client.start`.
        """
        return SyncTask(self.portal, self.portal.call(self._client.start(argv, **options)))

    def publish(self, task: Task, options: Mapping[str, Any]) -> SyncTask:
        """Publish the first task of a new session, of any kind; see `Client.publish`.

        Raises:
            ServiceError: as `Client.publish`.
        """
        return SyncTask(self.portal, self.portal.call(self._client.publish(task, options)))

    def create_session(self, **options: Unpack[SessionOptions]) -> SyncSession:
        """Create a session that stays open, and return it when a worker has it.

        Raises:
            TaskFailed: it could not be created.
            Rejected: no such pool, lane full; it was not accepted.
            OutcomeUnknown: it may have been created.
        """
        return SyncSession(self.portal, self.portal.call(self._client.create_session(**options)))

    def session(self, session_id: str) -> SyncSession:
        """Return an existing session by its id; nothing is asked yet."""
        return SyncSession(self.portal, self._client.session(session_id))

    def publish_next(self, session_id: str, task: Task, options: Mapping[str, Any]) -> SyncTask:
        """Publish the next task of a session; see `Client.publish_next`.

        Raises:
            ServiceError: as `Client.publish_next`.
        """
        portal = self.portal
        work = self._client.publish_next(session_id, task, options)
        return SyncTask(portal, portal.call(work))

    def attach(self, task_id: str, **options: Unpack[AttachOptions]) -> SyncTask:
        """Listen to a task that was published before, by whomever; see `Client.attach`.

        Raises:
            ServiceError: as `Client.attach`.
        """
        return SyncTask(self.portal, self.portal.call(self._client.attach(task_id, **options)))

    def read_result(self, task_id: str, *, session_id: str | None = None) -> Result | None:
        """Return the stored result of a task, or None while there is none.

        Args:
            task_id: the task.
            session_id: its session; None: it is its session's first task (a one-shot, say).
        """
        return self.portal.call(self._client.read_result(task_id, session_id=session_id))

    def cancel(
        self, task_id: str, *, session_id: str | None = None, pool: str | None = None
    ) -> CancelAnswer:
        """Cancel a task at whatever stage it is; see `Client.cancel`.

        Raises:
            OutcomeUnknown: nobody answered in time.
            Forbidden: another tenant's.
        """
        portal = self.portal
        work = self._client.cancel(task_id, session_id=session_id, pool=pool)
        return portal.call(work)

    def ask(self, what: str, question: msgspec.Struct, kind: type[T]) -> T:
        """Ask about this tenant's sessions or the pools; see `Client.ask`.

        Raises:
            ServiceError: as `Client.ask`.
        """
        return self.portal.call(self._client.ask(what, question, kind))
