"""The only package that knows OpenTelemetry, an optional dependency.

It is imported where traces are asked for (`shared.traces.settings`), or where the program uses OpenTelemetry itself.
"""

from shared.telemetry.publishes import Tracing, own_tracing

__all__ = ["Tracing", "own_tracing"]
