"""The worker's connection, as its heartbeat and its fence see it."""

from __future__ import annotations

from shared import messages, subjects
from shared.bus import Bus
from shared.messages import WorkerBeat

PROBE_S = 1.0
"""Longest wait for a proof of contact."""


class BusContact:
    """Implements `ports.Contact`."""

    def __init__(self, bus: Bus) -> None:
        """Watch this connection."""
        self._bus = bus

    def age_s(self) -> float:
        """Seconds since the last proof of contact."""
        return self._bus.contact_age_s()

    async def probe(self) -> bool:
        """Ask for a proof of contact now; return whether it came."""
        return await self._bus.probe(timeout_s=PROBE_S)

    async def beat(self, beat: WorkerBeat) -> None:
        """Send a heartbeat."""
        await self._bus.publish(subjects.heartbeat(beat.pool, beat.worker), messages.encode(beat))
