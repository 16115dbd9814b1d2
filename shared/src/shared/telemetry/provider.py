"""OpenTelemetry's SDK set up for a whole process, as its standard variables say: for the gateway and the command line."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from shared import logs
from shared.telemetry.export import CLOSE_S, hear_complaints, make_exporters, resource_of


class Telemetry:
    """The SDK of this process."""

    def __init__(self, provider: TracerProvider) -> None:
        """Use `provider`; it is the process' own from now on."""
        self._provider = provider
        trace.set_tracer_provider(provider)
        logs.add_source(ids_of_current_span)

    def close(self) -> None:
        """Export what is left, within a bound: nobody waits for a collector that does not answer."""
        thread = threading.Thread(target=self._provider.shutdown, daemon=True)
        thread.start()
        thread.join(CLOSE_S)


def open_telemetry(environ: Mapping[str, str], service: str, instance: str) -> Telemetry:
    """Set up the SDK with exporters and sampler of the `OTEL_…` variables."""
    hear_complaints()
    provider = TracerProvider(resource=resource_of(service, instance), shutdown_on_exit=False)
    for exporter in make_exporters(environ):
        provider.add_span_processor(BatchSpanProcessor(exporter))
    return Telemetry(provider)


def ids_of_current_span() -> dict[str, str]:
    """Return the ids under which a line of a log is found from its trace."""
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}
