"""A receiver of OTLP over HTTP, for tests and benchmarks: what exporters send, decoded."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status

PATH = "/v1/traces"
KINDS = ("unspecified", "internal", "server", "client", "producer", "consumer")


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """One span as it came."""

    name: str
    kind: str
    trace: str
    id: str
    parent: str
    """Empty: none."""
    start_ns: int
    end_ns: int
    attributes: dict[str, Any]
    links: tuple[tuple[str, str, str], ...]
    """(trace, span, why)"""
    failed: bool
    state: str
    resource: dict[str, Any]

    @property
    def service(self) -> str:
        """Whose span it is."""
        return str(self.resource.get("service.name", ""))


class Receiver:
    """What came in so far."""

    def __init__(self, url: str) -> None:
        """Listen at `url`."""
        self.url = url
        self.requests = 0
        self._spans: list[Received] = []
        self._lock = threading.Lock()

    def take(self, body: bytes) -> None:
        """Decode one export."""
        request = ExportTraceServiceRequest.FromString(body)
        with self._lock:
            self.requests += 1
            self._spans += _decoded(request)

    def spans(self, trace: str = "") -> list[Received]:
        """Return what came of a trace, or of all, in the order of their beginnings."""
        with self._lock:
            found = [span for span in self._spans if trace in ("", span.trace)]
        return sorted(found, key=lambda span: span.start_ns)


@contextmanager
def receive() -> Iterator[Receiver]:
    """Listen on loopback while inside."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            if self.path == PATH:
                receiver.take(body)
            self.send_response(200 if self.path == PATH else 404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver = Receiver(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def _decoded(request: ExportTraceServiceRequest) -> Iterator[Received]:
    for group in request.resource_spans:
        for scope in group.scope_spans:
            for span in scope.spans:
                yield _span(span, group.resource)


def _span(span: WireSpan, resource: Resource) -> Received:
    return Received(
        name=span.name,
        kind=KINDS[span.kind],
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        attributes=_values(span.attributes),
        links=tuple(
            (
                link.trace_id.hex(),
                link.span_id.hex(),
                str(_values(link.attributes).get("agent_sandbox.link", "")),
            )
            for link in span.links
        ),
        failed=span.status.code == Status.STATUS_CODE_ERROR,
        state=span.trace_state,
        resource=_values(resource.attributes),
    )


def _values(pairs: Iterable[KeyValue]) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value") or "") for pair in pairs}
