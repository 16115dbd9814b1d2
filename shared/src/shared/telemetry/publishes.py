"""Spans of publishes by OpenTelemetry, for clients and the gateway: they belong to whatever span the program is in.

Who wants them makes a `Tracing` and hands it to `BusOptions.tracer`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from opentelemetry.trace import (
    Span,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    TracerProvider,
    get_tracer_provider,
    use_span,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from shared import headers as names
from shared.errors import ServiceError
from shared.traces.span import OURS
from shared.traces.templates import template_of

SCOPE = "agent-sandbox"
"""Name of the instrumentation, as backends show it."""
_SYSTEM = "messaging.system"
_OPERATION_TYPE = "messaging.operation.type"
_OPERATION_NAME = "messaging.operation.name"
_DESTINATION = "messaging.destination.name"
_TEMPLATE = "messaging.destination.template"
_MESSAGE_ID = "messaging.message.id"
_BODY_SIZE = "messaging.message.body.size"
_ERROR_TYPE = "error.type"


class CallSpan:
    """A caller's view of a task."""

    def __init__(self, span: Span) -> None:
        """It is under way."""
        self._span: Span | None = span

    def active(self) -> AbstractContextManager[object]:
        """While inside, what is done belongs to the span."""
        if self._span is None:
            return nullcontext()
        return use_span(self._span, record_exception=False)

    def end(self, status: str) -> None:
        """End it, once: with the result's status, or empty where nobody waits for it any more."""
        span, self._span = self._span, None
        if span is None:
            return
        if status:
            span.set_attribute(f"{OURS}status", status)
        if status not in ("", "ok"):
            span.set_status(Status(StatusCode.ERROR))
            span.set_attribute(_ERROR_TYPE, status)
        span.end()


class Tracing:
    """Makes spans of publishes, by OpenTelemetry's conventions for messaging."""

    def __init__(self, provider: TracerProvider) -> None:
        """Make spans through `provider`, which decides where they go and how many of them."""
        self._tracer: Tracer = provider.get_tracer(SCOPE)
        self._propagator = TraceContextTextMapPropagator()

    def calling(self, attributes: dict[str, str]) -> CallSpan:
        """Begin the span of a task as its caller sees it: from the call to the result.

        Args:
            attributes: which task it is.
        """
        return CallSpan(self._tracer.start_span("run task", attributes=attributes))

    def inject(self, headers: dict[str, str]) -> None:
        """Put the present span's context into headers."""
        self._propagator.inject(headers)

    @contextmanager
    def publishing(self, subject: str, headers: dict[str, str], body_bytes: int) -> Iterator[None]:
        """While inside, a span of a publish is open: all tries under one message id.

        Args:
            subject: where the message goes.
            headers: those that will be sent; `traceparent` is put into them.
            body_bytes: size of the body.
        """
        template = template_of(subject)
        attributes: dict[str, str | int] = {
            _SYSTEM: "nats",
            _OPERATION_TYPE: "send",
            _OPERATION_NAME: "publish",
            _DESTINATION: subject,
            _TEMPLATE: template,
            _MESSAGE_ID: headers.get(names.MESSAGE_ID, ""),
            _BODY_SIZE: body_bytes,
        }
        with self._tracer.start_as_current_span(
            f"publish {template}",
            kind=SpanKind.PRODUCER,
            attributes=attributes,
            record_exception=False,  # a stack trace in each span of an outage helps nobody
        ) as span:
            self._propagator.inject(headers)
            try:
                yield
            except ServiceError as exc:
                span.set_attribute(_ERROR_TYPE, exc.code)
                raise


@functools.cache
def own_tracing() -> Tracing:
    """Return spans by the provider that the program has set up; without one they are part of its present span only."""
    return Tracing(get_tracer_provider())
