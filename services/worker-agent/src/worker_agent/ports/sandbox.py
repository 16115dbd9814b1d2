"""The confined half of the pod, and those who type into its terminal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import msgspec

from shared.files import Transfer
from shared.record import Record
from shared.terminals import TerminalAnswer
from worker_agent.core.output import StreamName
from worker_agent.core.results import RunEnd, StopCause
from worker_agent.core.terminal import Keys
from worker_agent.ports.files import Objects


class Sandbox(Protocol):
    """The confined half of the pod."""

    @property
    def lost(self) -> bool:
        """Whether the sandbox is gone."""
        ...

    def prepare(self, *, python: bool) -> None:
        """Expect a task soon, perhaps of kind `python`. Runs nothing of anybody's."""
        ...

    async def run(self, order: RunOrder) -> RunEnd:
        """Do what a task asks; returns how it ended, also when `stop` ended it. Never raises for what user code does."""
        ...

    async def stop(self, cause: StopCause, limit: str = "") -> None:
        """End the user code that runs now, if any: first politely, then by force."""
        ...

    @property
    def room_bytes(self) -> int:
        """Bytes that the running task's terminal takes now; 0 where it has none."""
        ...

    def type(self, data: bytes) -> None:
        """Type into the running task's terminal; the caller keeps to `room_bytes`."""
        ...

    def resize(self, rows: int, cols: int) -> None:
        """Give it another size, in characters."""

    def hang_up(self) -> None:
        """Tell its programs that whoever sat there has left."""

    def count_changes(self, since_ms: int) -> None:
        """Have it looked at, while tasks run, how much of the files changes from then on (wall clock, milliseconds)."""
        ...

    @property
    def changed_bytes(self) -> int | None:
        """Size of the files that have changed since then, at the last look; None: nobody has looked since."""
        ...

    async def wait_lost(self) -> None:
        """Return when the sandbox is gone."""
        ...

    async def freeze(self) -> None:
        """Stop user code without ending it."""
        ...

    async def thaw(self) -> None:
        """Let user code go on."""
        ...

    def lease(self, until_ns: int) -> None:
        """Let user code run until a moment by `CLOCK_BOOTTIME`, nanoseconds; it stands still after that by itself, whatever
        becomes of this process. In a sandbox whose workspace lies on a volume."""
        ...

    async def close(self) -> None:
        """End the sandbox."""
        ...


class RunOrder(msgspec.Struct, kw_only=True):
    """One attempt for the sandbox."""

    task: Any
    """A decoded `shared.task.Task`."""
    env: dict[str, str]
    timeout_s: float
    deadline_left_s: float
    on_started: Callable[[float], Awaitable[None]]
    """Called with the wall clock (ms) at which the first instruction of user code ran."""
    on_output: Callable[[StreamName, bytes], Awaitable[None]]
    objects: Objects
    """The tenant's."""
    on_progress: Callable[[Transfer], Awaitable[None]]
    """Called a few times a second while a file moves between object store and workspace, and when it has."""
    restored_ms: float = 0
    """Set by the sandbox: wall clock at which the task's files were all in the workspace; 0: it brings none."""


class Terminals(Protocol):
    """Where those who type into a task's terminal are heard."""

    def heard(
        self, record: Record, task: str, take: Callable[[Keys], TerminalAnswer]
    ) -> AbstractAsyncContextManager[None]:
        """While inside, have `take` answer what is said to the terminal of one task, and nobody else's."""
        ...
