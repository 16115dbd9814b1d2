"""The keepers of the pool's volume, asked over NATS."""

from __future__ import annotations

from shared import messages, subjects
from shared.bus import Bus
from shared.errors import error_of
from shared.messages import PodSpec
from shared.record import Record
from shared.volumes import TakeAsk, VolumeAnswer


class BusVolumes:
    """Implements `ports.Volumes`."""

    def __init__(self, bus: Bus, spec: PodSpec) -> None:
        """Ask for the pod of `spec`."""
        self._bus = bus
        self._subject = subjects.volume(spec.pool, "take", spec.pod)

    async def take(self, record: Record, *, left_s: float) -> None:
        """Have the session's files in this pod's workspace."""
        ask = TakeAsk(tenant=record.tenant, session=record.session, epoch=record.epoch)
        reply = await self._bus.request(self._subject, messages.encode(ask), timeout_s=left_s)
        answer = messages.decode(reply.data, VolumeAnswer)
        if answer.error is not None:
            raise error_of(answer.error)
