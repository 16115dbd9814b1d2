"""`SyncShell`: a program in a terminal, for programs without an event loop."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from types import TracebackType
from typing import Self

from agent_sandbox.events import Event
from agent_sandbox.results import Result
from agent_sandbox.shell import Shell
from agent_sandbox.sync.parts import SyncTask
from agent_sandbox.sync.portal import Portal


class SyncShell:
    """A program in a terminal. Use it as a context manager; iterate over it for what the terminal shows.

    At the end of the context the terminal is hung up, as when a window is closed, unless the program has ended or
    `detach` was called.
    """

    def __init__(self, portal: Portal, make: Callable[[], Shell]) -> None:
        """Wrap what `make` makes, on the client's own thread."""
        self._portal = portal
        self._shell = portal.call(_made(make))

    @property
    def is_old(self) -> bool:
        """Whether it ran already when it was entered."""
        return self._shell.is_old

    @property
    def task(self) -> SyncTask:
        """The task that runs in the terminal.

        Raises:
            RuntimeError: the context is not entered.
        """
        return SyncTask(self._portal, self._shell.task)

    def __enter__(self) -> Self:
        """Start it, or attach to it; returns when its program runs (or has ended without).

        Raises:
            ServiceError: it could not be published, or found.
        """
        self._portal.call(self._shell.__aenter__())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Hang up, unless it was detached or has ended."""
        self._portal.call(self._shell.__aexit__(kind, exc, trace))

    def __iter__(self) -> Iterator[bytes]:
        """Yield what the terminal shows, raw, until its program has ended. One reader only."""

        async def shown() -> AsyncGenerator[bytes, None]:
            async for data in self._shell:
                yield data

        return self._portal.iterate(shown())

    def write(self, data: str | bytes) -> None:
        """Type; returns when the terminal has it; see `Shell.write`.

        Raises:
            NotFound: the program has ended.
            OutcomeUnknown: no answer for long; a part may have been typed.
        """
        self._portal.call(self._shell.write(data))

    def resize(self, rows: int, cols: int) -> None:
        """Say that the window has another size now, in characters.

        Raises:
            InvalidMessage: above the bound (named).
            NotFound: the program has ended.
        """
        self._portal.call(self._shell.resize(rows, cols))

    def hang_up(self) -> None:
        """Close the window: the programs in the terminal get SIGHUP, and most of them end.

        Raises:
            NotFound: the program has ended.
        """
        self._portal.call(self._shell.hang_up())

    def detach(self) -> None:
        """Leave the program running at the end of the context; `SyncSession.attach` comes back to it."""
        self._shell.detach()

    def result(self, *, wait_s: float | None = None) -> Result:
        """Wait for the program's end, which a reader of the output comes to by itself.

        Raises:
            NoResultYet: no result within the wait.
        """
        return self._portal.call(self._shell.result(wait_s=wait_s))

    def events(self) -> Iterator[Event]:
        """Yield what happens, in place of the bytes alone: output, a loss of its worker, what is missing."""

        async def heard() -> AsyncGenerator[Event, None]:
            async for event in self._shell.events():
                yield event

        return self._portal.iterate(heard())


async def _made(make: Callable[[], Shell]) -> Shell:
    return make()
