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
        try:
            await self._bus.publish(subjects.gone(pool, gone.pod), encode(gone))
        except ServiceError as exc:
            log.warning("gone.dropped", pod=gone.pod, error=str(exc))

    async def beat(self, beat: NodeBeat) -> None:
        """Say that the node lives, and which pods it has."""
        try:
            await self._bus.publish(subjects.node_heartbeat(beat.node), encode(beat))
        except ServiceError as exc:
            log.debug("beat.dropped", error=str(exc))
