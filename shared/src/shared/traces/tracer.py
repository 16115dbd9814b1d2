"""Notes spans while a process acts, and hands them on. For the bus it is a `Tracer`."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

import structlog

from shared import headers as names
from shared.errors import ServiceError
from shared.traces import span as words
from shared.traces.context import Context
from shared.traces.span import Link, Span, SpanBatch, SpanKind, Value
from shared.traces.templates import template_of

Tell = Callable[[tuple[Span, ...]], None]
"""Takes finished spans; never waits, never fails."""


class Sink(Protocol):
    """Exports spans of any of our processes."""

    def take(self, batch: SpanBatch) -> None:
        """Queue spans for the export; what there is no room for is dropped."""

    def close(self) -> None:
        """Export what is queued, within a bound."""


class CurrentSpan:
    """A span that is under way."""

    def __init__(self, context: Context) -> None:
        """Begin without attributes."""
        self.context = context
        self.attributes: dict[str, Value] = {}
        self.links: tuple[Link, ...] = ()
        self.error = ""


_current: ContextVar[Context | None] = ContextVar("span", default=None)


class PlainTracer:
    """Makes spans of what this process does within a trace; outside of any it makes none."""

    def __init__(self, tell: Tell) -> None:
        """Hand finished spans to `tell`."""
        self.tell = tell

    @contextmanager
    def acting(
        self, name: str, parent: Context, *, kind: SpanKind = "internal", start_ns: int = 0
    ) -> Iterator[CurrentSpan | None]:
        """While inside, a span is under way, and what is done belongs to it; None: the trace is not kept.

        Args:
            name: the span's.
            parent: what it is a part of.
            kind: OpenTelemetry's.
            start_ns: when it began, nanoseconds since 1970; 0: now.
        """
        if not parent.sampled:
            yield None
            return
        own = Context(parent.trace_id, secrets.token_hex(8), sampled=True, state=parent.state)
        span, start_ns = CurrentSpan(own), start_ns or time.time_ns()
        token = _current.set(own)
        ids = structlog.contextvars.bind_contextvars(trace_id=own.trace_id, span_id=own.span_id)
        try:
            yield span
        except ServiceError as exc:
            span.error = exc.code
            raise
        finally:
            structlog.contextvars.reset_contextvars(**ids)
            _current.reset(token)
            self.tell((
                Span(
                    name=name,
                    kind=kind,
                    trace=own.trace_id,
                    id=own.span_id,
                    parent=parent.span_id,
                    state=own.state,
                    start_ns=start_ns,
                    end_ns=time.time_ns(),
                    attributes=span.attributes,
                    links=span.links,
                    error=span.error,
                ),
            ))  # fmt: skip

    @contextmanager
    def publishing(self, subject: str, headers: dict[str, str], body_bytes: int) -> Iterator[None]:
        """See `shared.bus.types.Tracer`."""
        parent = _current.get()
        if parent is None:
            yield
            return
        template = template_of(subject)
        with self.acting(f"publish {template}", parent, kind="producer") as span:
            if span is not None:
                span.attributes |= words.messaging("publish", "send", subject, template)
                span.attributes[words.MESSAGE_ID] = headers.get(names.MESSAGE_ID, "")
                span.attributes[words.BODY_SIZE] = body_bytes
                span.context.put(headers)
            yield
