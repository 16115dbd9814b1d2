"""What a checkpointer says unasked, over the bus."""

from __future__ import annotations

from shared import logs, subjects
from shared.bus import Bus
from shared.errors import ServiceError
from shared.messages import encode
from shared.workspace import CheckpointerBeat

log = logs.get(__name__)


class BusVoice:
    """The `Voice` port over NATS."""

    def __init__(self, bus: Bus) -> None:
        """Speak through `bus`."""
        self._bus = bus

    async def beat(self, beat: CheckpointerBeat) -> None:
        """Say that it lives, and how its store is."""
        try:
            await self._bus.publish(subjects.checkpointer_heartbeat(beat.node), encode(beat))
        except ServiceError as exc:
            log.debug("beat.dropped", error=str(exc))
