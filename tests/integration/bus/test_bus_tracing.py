"""Spans of publishes: off unless asked for; then one a publish, whose context travels with the message."""

from __future__ import annotations

from uuid import uuid4

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from shared import headers, subjects
from shared.bus import Bus
from shared.errors import NotFound
from shared.telemetry import Tracing
from shared.testing.names import unique
from shared.testing.plugin import Connect


@pytest.fixture
def spans() -> InMemorySpanExporter:
    """Where spans end."""
    return InMemorySpanExporter()


@pytest.fixture
def provider(spans: InMemorySpanExporter) -> TracerProvider:
    """OpenTelemetry's own SDK."""
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(spans))
    return made


async def test_a_publish_is_a_span_and_its_context_is_stored_with_the_message(
    connect: Connect, provider: TracerProvider, spans: InMemorySpanExporter
) -> None:
    """Whoever handles the message can link to who sent it."""
    bus = await connect(tracer=Tracing(provider))
    subject = subjects.task(unique("t"), "default", "batch")
    given = {"A": "b"}
    message_id = uuid4().hex
    with provider.get_tracer("test").start_as_current_span("caller") as caller:
        ack = await bus.publish_acked(subject, b"{}", message_id=message_id, headers=given)
    span = spans.get_finished_spans()[0]
    stored = await bus.read_next(ack.stream, "q.>", after_seq=ack.seq - 1)

    assert stored is not None
    context = span.context
    assert context is not None
    own = f"00-{context.trace_id:032x}-{context.span_id:016x}-"
    assert stored.headers["traceparent"].startswith(own)
    assert stored.headers["A"] == "b"
    assert given == {"A": "b"}
    assert span.name == "publish task.{tenant}.{pool}.{class}"
    assert span.kind is trace.SpanKind.PRODUCER
    assert span.parent is not None
    assert span.parent.span_id == caller.get_span_context().span_id
    assert dict(span.attributes or {}) == {
        "messaging.system": "nats",
        "messaging.operation.type": "send",
        "messaging.operation.name": "publish",
        "messaging.destination.name": subject,
        "messaging.destination.template": "task.{tenant}.{pool}.{class}",
        "messaging.message.id": message_id,
        "messaging.message.body.size": 2,
    }


async def test_a_failed_publish_is_a_span_with_our_code(
    connect: Connect, provider: TracerProvider, spans: InMemorySpanExporter
) -> None:
    """One span for all its tries, and no stack trace in it."""
    bus = await connect(tracer=Tracing(provider))
    with pytest.raises(NotFound):
        await bus.publish_acked("task.t.no-such-pool.batch", b"", message_id=uuid4().hex)
    (span,) = spans.get_finished_spans()

    assert (span.attributes or {})["error.type"] == NotFound.code
    assert span.status.status_code is trace.StatusCode.ERROR
    assert span.events == ()


async def test_without_a_tracer_nothing_is_added(admin_bus: Bus) -> None:
    """Off unless asked for: the message has the headers that it was given, and its id."""
    subject = subjects.task(unique("t"), "default", "batch")
    message_id = uuid4().hex
    ack = await admin_bus.publish_acked(subject, b"{}", message_id=message_id)
    stored = await admin_bus.read_next(ack.stream, "q.>", after_seq=ack.seq - 1)

    assert stored is not None
    assert dict(stored.headers) == {headers.MESSAGE_ID: message_id}
