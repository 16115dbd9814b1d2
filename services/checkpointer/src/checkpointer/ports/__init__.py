"""What the checkpointer's loops need from the outside; adapters provide it."""

from __future__ import annotations

from typing import Protocol

from shared.traces.span import Span
from shared.workspace import CheckpointerBeat


class Voice(Protocol):
    """What a checkpointer says unasked. A message that cannot be sent is dropped: the next heartbeat tells."""

    async def beat(self, beat: CheckpointerBeat) -> None:
        """Say that it lives, and how its store is."""
        ...


class Spans(Protocol):
    """Where spans go."""

    async def tell(self, pool: str, spans: tuple[Span, ...]) -> None:
        """Hand on spans of jobs of a pool; what can't be sent now is dropped."""
        ...
