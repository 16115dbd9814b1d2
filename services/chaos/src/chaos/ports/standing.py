"""How a run stands, for whoever draws it: counted by those who drive it."""

from __future__ import annotations

import asyncio
from collections import deque

import msgspec


class Standing(msgspec.Struct):
    """Counters, and the newest words."""

    phase: str = "start"
    sessions: int = 0
    """That were made."""
    waiting: dict[str, float] = msgspec.field(default_factory=dict)
    """Tasks under way, and since when."""
    turns: int = 0
    one_shots: int = 0
    errors: int = 0
    hit: dict[str, int] = msgspec.field(default_factory=dict)
    """Sessions that lost their owner to the newest faults -> epoch that was lost."""
    stalled: int = 0
    recovered: int = 0
    pressure: float | None = None
    marks: deque[str] = msgspec.field(default_factory=lambda: deque(maxlen=6))
    """The newest faults and phases, in words."""


class Pace(msgspec.Struct):
    """How fast the load goes; whoever drives it looks each time."""

    think: float = 1.0
    """Users think so many times longer than they would."""
    burst: float = 1.0
    """And so many times shorter."""
    over: asyncio.Event = msgspec.field(default_factory=asyncio.Event)
    """The load ends: nobody begins anything."""

    def pause_s(self, pause_s: float) -> float:
        """Return a pause at the pace of now."""
        return pause_s * self.think / self.burst
