"""What the worker says, and how it knows that it is heard."""

from __future__ import annotations

from typing import Any, Protocol

from shared.messages import WorkerBeat
from shared.record import Record
from shared.traces.span import Span
from worker_agent.core.output import Piece


class Contact(Protocol):
    """The worker's connection, as its heartbeat and its fence see it."""

    def age_s(self) -> float:
        """Seconds since the last proof of contact, by the worker's own monotonic clock."""
        ...

    async def probe(self) -> bool:
        """Ask for a proof of contact now; return whether it came."""
        ...

    async def beat(self, beat: WorkerBeat) -> None:
        """Send a heartbeat.

        Raises:
            Unavailable: not connected.
        """
        ...


class Voice(Protocol):
    """What the worker tells while a task runs: best effort, never waits long, never fails."""

    async def output(self, record: Record, task: str, piece: Piece) -> None:
        """Publish a piece of output."""
        ...

    def said(self, record: Record, task: str) -> int:
        """Return how many messages this attempt of a task has sent; 0 before its first."""
        ...

    async def event(self, record: Record, task: str, name: str, **details: Any) -> None:
        """Publish an event: `started`, `progress`, `recovered`, `workspace_lost`, `truncated`."""
        ...


class Spans(Protocol):
    """Takes finished spans."""

    async def tell(self, spans: tuple[Span, ...]) -> None:
        """Hand spans to whoever exports them: best effort, never waits long, never fails."""
        ...
