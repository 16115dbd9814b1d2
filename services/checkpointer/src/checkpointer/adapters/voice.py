"""What a checkpointer says unasked, over the bus."""

from __future__ import annotations

from shared import logs, subjects
from shared.bus import Bus
from shared.errors import ServiceError
from shared.messages import encode
from shared.traces.span import Span, SpanBatch
from shared.workspace import CheckpointerBeat

log = logs.get(__name__)


class BusVoice:
    """The `Voice` port over NATS."""

    def __init__(self, bus: Bus, node: str) -> None:
        """Speak through `bus`, as the checkpointer of `node`."""
        self._bus = bus
        self._node = node

    async def tell(self, pool: str, spans: tuple[Span, ...]) -> None:
        """Send spans of jobs to whichever pool-manager exports them; what can't be sent now is dropped."""
        batch = SpanBatch(
            service="checkpointer", instance=self._node, node=self._node, pool=pool, spans=spans
        )
        try:
            await self._bus.publish(subjects.spans(pool, self._node), encode(batch))
        except ServiceError as exc:
            log.debug("spans.dropped", error=str(exc))

    async def beat(self, beat: CheckpointerBeat) -> None:
        """Say that it lives, and how its store is."""
        try:
            await self._bus.publish(subjects.checkpointer_heartbeat(beat.node), encode(beat))
        except ServiceError as exc:
            log.debug("beat.dropped", error=str(exc))
