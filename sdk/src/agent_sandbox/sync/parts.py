"""What belongs to a `SyncClient`: running tasks, objects, dead letters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self, Unpack

from agent_sandbox.client import Client
from agent_sandbox.events import Event
from agent_sandbox.letters import DeadLetters, ReplayOptions
from agent_sandbox.objects import OnProgress, Writable
from agent_sandbox.results import Result
from agent_sandbox.running import RunningTask
from agent_sandbox.sync.portal import Portal
from shared.files import ObjectRef
from shared.messages import CancelAnswer
from shared.rest import Tti
from shared.views import LetterAnswer, LettersAnswer

SyncSource = Path | str | bytes | BinaryIO | Iterator[bytes]
"""A file of this machine, text, bytes, an open binary file, or whatever yields bytes."""


class SyncTask:
    """A task that was published. Use it as a context manager, or call `result`: both end its watch."""

    def __init__(self, portal: Portal, running: RunningTask) -> None:
        """Wrap a running task."""
        self._portal = portal
        self._running = running

    def __repr__(self) -> str:
        """Name it."""
        return f"SyncTask({self.task_id!r}, session_id={self.session_id!r})"

    @property
    def task_id(self) -> str:
        """Id of the task."""
        return self._running.task_id

    @property
    def session_id(self) -> str:
        """Id of its session."""
        return self._running.session_id

    @property
    def pool(self) -> str:
        """Its pool; empty: a later task of a session that was not heard to start."""
        return self._running.pool

    @property
    def has_started(self) -> bool:
        """Whether the first instruction of user code was heard to run."""
        return self._running.has_started

    @property
    def tti(self) -> Tti | None:
        """Time from the call to the first instruction of user code; None: not heard."""
        return self._running.tti

    def __enter__(self) -> Self:
        """Return the task itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop listening; the task goes on."""
        self.forget()

    def forget(self) -> None:
        """Stop listening; the task goes on, its result can be read later by its id."""
        if self._portal.is_alive:  # else nobody listens any more
            self._portal.call(self._running.forget())

    def started(self, *, wait_s: float, ask: bool = True) -> bool:
        """Wait until user code was heard to run, or the result is there; return whether one of both came in time.

        Args:
            wait_s: longest wait, seconds.
            ask: ask for the result once a second, since what would be heard may be lost on the way.
        """
        return self._portal.call(self._running.started(wait_s=wait_s, ask=ask))

    def result(self, *, wait_s: float | None = None) -> Result:
        """Wait for the task's one result.

        Args:
            wait_s: longest wait, seconds; None: as long as the task may take by its deadline.

        Raises:
            NoResultYet: no result within that time (a `TimeoutError`, too); the task goes on.
        """
        return self._portal.call(self._running.result(wait_s=wait_s))

    def events(self) -> Iterator[Event]:
        """Yield what happens to the task until its result is there: started, output, recovered, missing.

        One reader only. The result itself comes from `result`.

        Raises:
            NoResultYet: no result within the wait; the task goes on.
        """
        return self._portal.iterate(self._running.events())

    def cancel(self, *, wait_s: float = 15.0) -> CancelAnswer:
        """Ask for the task's end, at whatever stage it is; see `RunningTask.cancel`.

        Args:
            wait_s: longest wait for an answer, seconds.

        Raises:
            OutcomeUnknown: nobody answered in time.
        """
        return self._portal.call(self._running.cancel(wait_s=wait_s))


class SyncObjects:
    """One tenant's objects. Immutable; they go after 48 hours, or when they are dropped."""

    def __init__(self, portal: Portal, client: Client) -> None:
        """Use a client's connection."""
        self._portal = portal
        self._client = client

    def put(self, source: SyncSource, *, on_progress: OnProgress | None = None) -> ObjectRef:
        """Store content, at the memory of a few chunks however large it is; see `Objects.put`.

        Args:
            source: what to store.
            on_progress: called now and then, on the client's own thread: it must not call the client.

        Raises:
            ServiceError: as `Objects.put`.
        """

        async def work() -> ObjectRef:
            return await self._client.objects.put(as_source(source), on_progress=on_progress)

        return self._portal.call(work())

    def get(
        self, reference: ObjectRef, to: Path | Writable, *, on_progress: OnProgress | None = None
    ) -> None:
        """Copy an object into a file; a named one is replaced only by the whole content; see `Objects.get`.

        Args:
            reference: which.
            to: a file of this machine, or an open binary file.
            on_progress: called for each chunk, on the client's own thread: it must not call the client.

        Raises:
            ServiceError: as `Objects.get`.
        """

        async def work() -> None:
            await self._client.objects.get(reference, to, on_progress=on_progress)

        self._portal.call(work())

    def read(self, reference: ObjectRef) -> Iterator[bytes]:
        """Yield an object's content in pieces.

        Raises:
            ServiceError: as `Objects.get`.
        """

        async def opened() -> None:
            found.append(self._client.objects.read(reference))

        found: list[AsyncGenerator[bytes, None]] = []
        self._portal.call(opened())
        return self._portal.iterate(found[0])

    def drop(self, *ids: str) -> None:
        """Remove objects for good; what could not be removed now goes by its age."""

        async def work() -> None:
            await self._client.objects.drop(*ids)

        self._portal.call(work())


class SyncDeadLetters:
    """Of one tenant, kept for 30 days unless newer ones need the room."""

    def __init__(self, portal: Portal, letters: DeadLetters) -> None:
        """Ask through a client's connection."""
        self._portal = portal
        self._letters = letters

    def list(self, *, limit: int = 100, before: int | None = None) -> LettersAnswer:
        """Return a page of dead letters, the newest first.

        Args:
            limit: how many at most.
            before: only letters with a lower number: `next` of the page before.

        Raises:
            ServiceError: as `Client.ask`.
        """
        return self._portal.call(self._letters.list(limit=limit, before=before))

    def show(self, number: int) -> LetterAnswer:
        """Return one dead letter with its body.

        Raises:
            NotFound: there is no such letter (any more).
            ServiceError: others as `Client.ask`.
        """
        return self._portal.call(self._letters.show(number))

    def replay(self, number: int, **options: Unpack[ReplayOptions]) -> SyncTask:
        """Publish a dead letter's task again, under a new id; see `DeadLetters.replay`.

        Raises:
            ServiceError: as `DeadLetters.replay`.
        """
        return SyncTask(self._portal, self._portal.call(self._letters.replay(number, **options)))

    def drop(self, number: int) -> bool:
        """Remove a dead letter; return whether it was there.

        Raises:
            ServiceError: as `Client.ask`; dropping again does no harm.
        """
        return self._portal.call(self._letters.drop(number))


def as_source(source: SyncSource) -> Path | str | bytes | BinaryIO | AsyncIterator[bytes]:
    """Return a source as the async client takes it: an iterator's next piece is fetched on a thread of its own."""
    if isinstance(source, Path | str | bytes) or hasattr(source, "read"):
        return source  # type: ignore[return-value]  # what has `read` is a file
    return _pieces(source)


async def _pieces(source: Iterator[bytes]) -> AsyncIterator[bytes]:
    while (piece := await asyncio.to_thread(next, source, None)) is not None:
        yield piece
