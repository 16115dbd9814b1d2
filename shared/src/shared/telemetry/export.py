"""Exports spans by OpenTelemetry's SDK, as its standard variables say."""

from __future__ import annotations

import functools
import logging
import re
import threading
from collections.abc import Mapping
from importlib.metadata import entry_points

from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link as SdkLink
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from shared import logs
from shared.traces.span import ERROR_TYPE, SPANS_MAX, Span, SpanBatch

log = logs.get(__name__)

SCOPE = InstrumentationScope("agent-sandbox")
NAMESPACE = "agent-sandbox"
CLOSE_S = 2.0
"""For the export of what is left when a process ends."""
RESOURCES_MAX = 1024
TIME_END_NS = 1 << 63
_TRACE_ID, _SPAN_ID = re.compile(r"[0-9a-f]{32}"), re.compile(r"[0-9a-f]{16}")
_KINDS = {
    "internal": SpanKind.INTERNAL,
    "producer": SpanKind.PRODUCER,
    "consumer": SpanKind.CONSUMER,
    "client": SpanKind.CLIENT,
    "server": SpanKind.SERVER,
}
_WIRES = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http", "": "otlp_proto_http"}


class SpanSink:
    """Implements `shared.traces.Sink` over span processors, each with a bounded queue and a thread of its own."""

    def __init__(self, processors: tuple[SpanProcessor, ...]) -> None:
        """Hand spans to `processors`."""
        self._processors = processors

    def take(self, batch: SpanBatch) -> None:
        """Queue spans for the export; what there is no room for is dropped."""
        resource = resource_of(batch.service, batch.instance, batch.node)
        for span in batch.spans[:SPANS_MAX]:
            try:
                readable = to_readable(span, resource)
            except ValueError:  # not from a worker of this version
                log.debug("span.unreadable", name=span.name[:80])
                continue
            for processor in self._processors:
                processor.on_end(readable)

    def close(self) -> None:
        """Export what is left, within a bound: nobody waits for a collector that does not answer."""
        threads = [
            threading.Thread(target=processor.shutdown, daemon=True)
            for processor in self._processors
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(CLOSE_S)


def open_sink(environ: Mapping[str, str], service: str, instance: str) -> SpanSink | None:
    """Return a sink with the exporters that `OTEL_TRACES_EXPORTER` names; None: none of them can be used."""
    hear_complaints()
    exporters = make_exporters(environ)
    if not exporters:
        return None
    log.info("traces.on", service=service, instance=instance, exporters=len(exporters))
    return SpanSink(tuple(BatchSpanProcessor(exporter) for exporter in exporters))


def make_exporters(environ: Mapping[str, str]) -> list[SpanExporter]:
    """Return the exporters that the variables name; one that can't be made is logged and left out."""
    made = []
    wire = (
        environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
        or environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
        or ""
    )
    for name in (environ.get("OTEL_TRACES_EXPORTER") or "otlp").split(","):
        known = _WIRES.get(wire.strip(), wire) if name.strip() == "otlp" else name.strip()
        found = list(entry_points(group="opentelemetry_traces_exporter", name=known))
        if not found:
            log.error("exporter.not_installed", exporter=known[:80])
            continue
        try:
            made.append(found[0].load()())
        except Exception as exc:  # noqa: BLE001 - whatever a plug-in raises, the service goes on without it
            log.error("exporter.unusable", exporter=known[:80], error=str(exc))  # noqa: TRY400 - says all
    return made


@functools.lru_cache(RESOURCES_MAX)
def resource_of(service: str, instance: str, node: str = "") -> Resource:
    """Return who a span is of. What `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` say goes before it."""
    who = {
        "service.namespace": NAMESPACE,
        "service.name": service,
        "service.instance.id": instance,
    }
    if node:
        who |= {"k8s.pod.name": instance, "k8s.node.name": node}
    return Resource(who).merge(OTELResourceDetector().detect())


def to_readable(span: Span, resource: Resource) -> ReadableSpan:
    """Return a span as the SDK's exporters take it.

    Raises:
        ValueError: an id or a time is none that an exporter can write; it would lose all that it has in hand.
    """
    if not (0 <= span.start_ns < TIME_END_NS and 0 <= span.end_ns < TIME_END_NS):
        raise ValueError(f"{span.start_ns} to {span.end_ns}")
    own = _context(span.trace, span.id, span.state)
    attributes = dict(span.attributes)
    if span.error:
        attributes[ERROR_TYPE] = span.error
    return ReadableSpan(
        name=span.name,
        context=own,
        parent=_context(span.trace, span.parent, span.state) if span.parent else None,
        resource=resource,
        attributes=attributes,
        links=[
            SdkLink(_context(link.trace, link.span), {"agent_sandbox.link": link.why})
            for link in span.links
        ],
        kind=_KINDS[span.kind],
        instrumentation_scope=SCOPE,
        status=Status(StatusCode.ERROR if span.error else StatusCode.UNSET),
        start_time=span.start_ns,
        end_time=max(span.start_ns, span.end_ns),
    )


def _context(trace: str, span: str, state: str = "") -> SpanContext:
    if not (_TRACE_ID.fullmatch(trace) and _SPAN_ID.fullmatch(span)):
        raise ValueError(f"{trace[:40]} {span[:40]}")
    return SpanContext(
        int(trace, 16),
        int(span, 16),
        is_remote=False,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
        trace_state=TraceState.from_header([state]) if state else TraceState(),
    )


class _Complaints(logging.Handler):
    """Puts what the SDK says of itself into our logs."""

    def emit(self, record: logging.LogRecord) -> None:
        log.warning("telemetry.failed", what=record.name, error=record.getMessage()[:300])


def hear_complaints() -> None:
    """Let the SDK's warnings (a collector that does not answer) appear as lines of ours."""
    logger = logging.getLogger("opentelemetry")
    if not any(isinstance(handler, _Complaints) for handler in logger.handlers):
        logger.addHandler(_Complaints(logging.WARNING))
        logger.propagate = False
