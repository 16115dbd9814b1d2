"""A span for each HTTP request that is served, part of its caller's trace where that sent one. Plain ASGI."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from shared.telemetry.publishes import SCOPE
from shared.traces.context import TRACEPARENT, TRACESTATE, read_context

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
App = Callable[[Any, Any, Any], Awaitable[None]]
ROUTE = "path_template"
"""Where Litestar says which route was taken."""
FAULT = 500


class HttpSpans:
    """Stands before an application."""

    def __init__(self, app: App) -> None:
        """Make spans by the process' own provider."""
        self._app = app
        self._tracer = trace.get_tracer(SCOPE)
        self._propagator = TraceContextTextMapPropagator()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request within its span."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        method = scope.get("method", "WEBSOCKET")
        facts = {
            "http.request.method": method,
            "url.path": scope["path"][:256],
            "url.scheme": scope.get("scheme", "http"),
        }
        with self._tracer.start_as_current_span(
            method,
            context=self._propagator.extract(_carried(scope)),
            kind=SpanKind.SERVER,
            attributes=facts,
            record_exception=False,
        ) as span:

            async def sending(message: Any) -> None:
                status = message.get("status")
                if status is not None:
                    span.set_attribute("http.response.status_code", status)
                    if status >= FAULT:
                        span.set_status(Status(StatusCode.ERROR))
                        span.set_attribute("error.type", str(status))
                await send(message)

            try:
                await self._app(scope, receive, sending)
            finally:
                if route := scope.get(ROUTE):
                    span.update_name(f"{method} {route}")
                    span.set_attribute("http.route", route)


def _carried(scope: Scope) -> dict[str, str]:
    """Return the caller's context, if it is one."""
    wanted = (TRACEPARENT.encode(), TRACESTATE.encode())
    found = {
        name.decode(): value.decode("latin-1")
        for name, value in scope.get("headers", ())
        if name in wanted
    }
    carried: dict[str, str] = {}
    if (context := read_context(found)) is not None:
        context.put(carried)
    return carried
