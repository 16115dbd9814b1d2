"""Spans of workers and of this pool-manager, on their way to the export."""

from __future__ import annotations

import msgspec

from shared import logs, messages, subjects
from shared.bus import Bus, Message
from shared.errors import InvalidMessage
from shared.traces import Sink, Span, SpanBatch

log = logs.get(__name__)

SERVICE = "pool-manager"


class SpanExport:
    """Hands spans to a sink."""

    def __init__(self, sink: Sink, name: str) -> None:
        """Export to `sink`, as the pool-manager `name`."""
        self._sink = sink
        self._name = name

    def tell(self, spans: tuple[Span, ...]) -> None:
        """Export spans of this process."""
        self._sink.take(SpanBatch(service=SERVICE, instance=self._name, spans=spans))

    async def hear(self, bus: Bus) -> None:
        """Take workers' spans: one of all pool-managers gets each message.

        Raises:
            Unavailable: no server takes the subscription.
        """
        await bus.subscribe(subjects.spans("*"), self._heard, queue=subjects.MANAGER_GROUP)

    def _heard(self, message: Message) -> None:
        """Whose they are says the subject, on which the servers check permissions."""
        _, pool, worker = message.subject.split(".")
        try:
            batch = messages.decode(message.data, SpanBatch)
        except InvalidMessage as exc:
            log.warning("spans.unreadable", worker=worker, error=str(exc)[:200])
            return
        self._sink.take(msgspec.structs.replace(batch, pool=pool, instance=worker))
