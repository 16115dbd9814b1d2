"""Who publishes: the bare NATS library, and our bus with and without spans. All connect to the same server."""

from __future__ import annotations

import itertools
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Protocol

import msgspec
import nats
import nats.js
from nats.aio.client import Client as LibraryClient
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from shared import headers, identity
from shared.bus import Bus
from shared.cluster import Cluster
from shared.identity import roles
from shared.telemetry import Tracing
from shared.testing.plugin import admin_options

SUBJECT = "bench.publish"
TIMEOUT_S = 5.0


class Caller(Protocol):
    """One connection that publishes."""

    name: str
    acked: int
    """Publishes that were acknowledged so far."""

    async def publish(self, body: bytes) -> None:
        """Publish once, under an id of its own, and wait until it is stored."""

    async def close(self) -> None:
        """Disconnect."""


class Bare:
    """The library as its documentation shows it, with a message id."""

    def __init__(self, client: LibraryClient) -> None:
        """Use `connect`."""
        self.name = "bare"
        self.acked = 0
        self._client = client
        self._js: nats.js.JetStreamContext = client.jetstream(timeout=TIMEOUT_S)
        self._numbers = itertools.count()

    @classmethod
    async def connect(cls, cluster: Cluster) -> Bare:
        """Connect to the first server."""
        with NamedTemporaryFile(suffix=".creds") as file:
            identity.write_credential(
                Path(file.name), cluster.identity.signer.mint("bare", roles.admin())
            )
            return cls(await nats.connect(cluster.urls[0], user_credentials=file.name))

    async def publish(self, body: bytes) -> None:
        """Publish once."""
        await self._js.publish(
            SUBJECT, body, headers={headers.MESSAGE_ID: f"bare-{next(self._numbers):08d}"}
        )
        self.acked += 1

    async def close(self) -> None:
        """Disconnect."""
        await self._client.close()


class Counting(SpanExporter):
    """Where spans end here: what a real exporter does with the network is not the bus's cost."""

    def __init__(self) -> None:
        """Count from 0."""
        self.spans = 0

    def export(self, spans: object) -> SpanExportResult:
        """Count them."""
        self.spans += len(spans)  # type: ignore[arg-type]  # a sequence of spans
        return SpanExportResult.SUCCESS


class Ours:
    """`Bus.publish_acked`."""

    def __init__(self, name: str, bus: Bus, provider: TracerProvider, spans: Counting) -> None:
        """Use `connect`."""
        self.name = name
        self.acked = 0
        self.spans = spans
        self._provider = provider
        self._bus = bus
        self._numbers = itertools.count()

    @classmethod
    async def connect(cls, cluster: Cluster, *, traced: bool) -> Ours:
        """Connect to the first server; with `traced`, each publish makes a span of OpenTelemetry's SDK."""
        name = "bus_traced" if traced else "bus"
        spans = Counting()
        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(spans))
        options = msgspec.structs.replace(
            admin_options(cluster, name),
            servers=cluster.urls[:1],
            tracer=Tracing(provider) if traced else None,
        )
        return cls(name, await Bus.connect(options), provider, spans)

    async def publish(self, body: bytes) -> None:
        """Publish once."""
        number = next(self._numbers)
        await self._bus.publish_acked(
            SUBJECT, body, message_id=f"{self.name}-{number:08d}", attempt_s=TIMEOUT_S
        )
        self.acked += 1

    async def close(self) -> None:
        """Disconnect."""
        await self._bus.close()
        self._provider.shutdown()


def finished_spans(callers: list[Caller]) -> int:
    """Return how many spans came to their end."""
    return sum(caller.spans.spans for caller in callers if isinstance(caller, Ours))
