"""The checkpointer's heartbeat."""

from __future__ import annotations

from collections.abc import Callable

from checkpointer.ports import Voice
from shared.pace import steadily
from shared.workspace import CheckpointerBeat


async def beat(state: Callable[[], CheckpointerBeat], voice: Voice, period_s: float) -> None:
    """Say what the checkpointer does, every `period_s` seconds, for ever."""
    await steadily(lambda: voice.beat(state()), period_s)
