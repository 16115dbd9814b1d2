"""The only package that knows OpenTelemetry, an optional dependency.

Nothing in `shared` imports it but `shared.traces.settings`, once traces are asked for.
"""

from shared.telemetry.publishes import Tracing

__all__ = ["Tracing"]
