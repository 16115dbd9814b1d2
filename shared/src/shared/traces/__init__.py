"""Traces as plain data: what workers and pool-managers note, without OpenTelemetry.

A span is a struct here; who has the SDK (`shared.telemetry`) exports it. So a worker imports nothing for its traces, and
what it noted lives on when it is killed.
"""

from shared.traces.context import Context, Sampling, Trace, read_context
from shared.traces.span import Link, Span, SpanBatch, SpanKind
from shared.traces.tracer import CurrentSpan, PlainTracer, Sink, Tell

__all__ = [
    "Context",
    "CurrentSpan",
    "Link",
    "PlainTracer",
    "Sampling",
    "Sink",
    "Span",
    "SpanBatch",
    "SpanKind",
    "Tell",
    "Trace",
    "read_context",
]
