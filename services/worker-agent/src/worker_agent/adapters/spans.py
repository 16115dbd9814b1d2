"""Spans on their way to the pool-managers, one of which exports them: core messages, which nobody confirms."""

from __future__ import annotations

from shared import messages, subjects
from shared.bus import Bus
from shared.errors import ServiceError
from shared.messages import PodSpec
from shared.traces.span import SPANS_MAX, Span, SpanBatch


class SpanVoice:
    """Implements `ports.Spans`. What is sent is with the servers, whatever becomes of this process."""

    def __init__(self, bus: Bus, spec: PodSpec) -> None:
        """Speak as the worker of `spec`."""
        self._bus = bus
        self._spec = spec

    async def tell(self, spans: tuple[Span, ...]) -> None:
        """Send spans; what can't be sent now is dropped."""
        spec = self._spec
        batch = SpanBatch(
            service="worker-agent",
            instance=spec.pod,
            node=spec.node,
            pool=spec.pool,
            spans=spans[:SPANS_MAX],
        )
        try:
            await self._bus.publish(subjects.spans(spec.pool, spec.pod), messages.encode(batch))
        except ServiceError:
            return
