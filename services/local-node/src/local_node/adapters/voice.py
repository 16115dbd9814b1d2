"""What a node says unasked, over the bus."""

from __future__ import annotations

from shared import logs, subjects
from shared.bus import Bus
from shared.errors import ServiceError
from shared.messages import NodeBeat, PodGone, encode

log = logs.get(__name__)


class BusVoice:
    """The `Voice` port over NATS."""

    def __init__(self, bus: Bus) -> None:
        """Speak through `bus`."""
        self._bus = bus

    async def gone(self, pool: str, gone: PodGone) -> None:
        """Say that all processes of a pod are gone."""
        await self._say(subjects.gone(pool, gone.pod), encode(gone))

    async def beat(self, beat: NodeBeat) -> None:
        """Say that the node lives, and which pods it has."""
        await self._say(subjects.node_heartbeat(beat.node), encode(beat))

    async def _say(self, subject: str, body: bytes) -> None:
        try:
            await self._bus.publish(subject, body)
        except ServiceError as exc:
            log.warning("message.dropped", subject=subject, error=str(exc))
