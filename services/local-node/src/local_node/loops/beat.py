"""The node's heartbeat."""

from __future__ import annotations

from collections.abc import Callable

from local_node.ports import Voice
from shared.messages import NodeBeat
from shared.pace import steadily


async def beat(state: Callable[[], NodeBeat], voice: Voice, period_s: float) -> None:
    """Say what the node holds, every `period_s` seconds, for ever."""
    await steadily(lambda: voice.beat(state()), period_s)
