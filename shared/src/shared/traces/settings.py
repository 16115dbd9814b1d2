"""What OpenTelemetry's own variables (`OTEL_…`) ask for. Nothing of OpenTelemetry is imported before they do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

import msgspec

from shared import logs
from shared.traces.context import Sampling
from shared.traces.tracer import Sink

log = logs.get(__name__)
T = TypeVar("T")

PREFIX = "OTEL_"
EXPORTER = "OTEL_TRACES_EXPORTER"
ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
DISABLED = "OTEL_SDK_DISABLED"
SAMPLER = "OTEL_TRACES_SAMPLER"
SAMPLER_ARG = "OTEL_TRACES_SAMPLER_ARG"


class Traces(msgspec.Struct, frozen=True):
    """Traces are on: which are kept, and where their spans go."""

    sampling: Sampling
    sink: Sink


class Closing(Protocol):
    """Something that is closed at a process' end."""

    def close(self) -> None:
        """Export what is left, within a bound."""


def is_asked(environ: Mapping[str, str]) -> bool:
    """Return whether traces are wanted: an exporter or an endpoint is named, and the SDK is not disabled."""
    if environ.get(DISABLED, "").strip().lower() == "true":
        return False
    exporter = environ.get(EXPORTER, "").strip().lower()
    if exporter:
        return exporter != "none"
    return any(environ.get(name, "").strip() for name in ENDPOINTS)


def read_sampling(environ: Mapping[str, str]) -> Sampling:
    """Return how the standard variables say that traces are sampled; what they do not say well is the standard's own."""
    name = environ.get(SAMPLER, "").strip().lower() or "parentbased_always_on"
    kind = name.removeprefix("parentbased_")
    if kind not in ("always_on", "always_off", "traceidratio"):
        log.warning("sampler.unknown", sampler=name[:80])
        return Sampling()
    ratio = _ratio(environ.get(SAMPLER_ARG, "")) if kind == "traceidratio" else 1.0
    return Sampling(0.0 if kind == "always_off" else ratio, name != kind)


def _ratio(text: str) -> float:
    try:
        ratio = float(text or "1")
    except ValueError:
        ratio = -1.0
    if 0 <= ratio <= 1:
        return ratio
    log.warning("sampler.argument_unusable", argument=text[:80])
    return 1.0


def open_traces(environ: Mapping[str, str], service: str, instance: str) -> Traces | None:
    """Return where this process' spans go, as the variables ask for; None: traces are off."""
    if not is_asked(environ):
        return None
    try:
        from shared.telemetry.export import open_sink  # noqa: PLC0415 - only where it is asked for
    except ImportError as exc:
        _say_missing(exc)
        return None
    sink = _made(lambda: open_sink(environ, service, instance))
    return None if sink is None else Traces(read_sampling(environ), sink)


def open_sdk(environ: Mapping[str, str], service: str, instance: str) -> Closing | None:
    """Set up OpenTelemetry's SDK for this process, as the variables ask for; None: traces are off."""
    if not is_asked(environ):
        return None
    try:
        from shared.telemetry.provider import open_telemetry  # noqa: PLC0415 - only where it is asked for
    except ImportError as exc:
        _say_missing(exc)
        return None
    return _made(lambda: open_telemetry(environ, service, instance))


def _made(make: Callable[[], T]) -> T | None:
    """Return what is made; None where the SDK takes a variable for none of its own (`OTEL_BSP_…`, `OTEL_SPAN_…`)."""
    try:
        return make()
    except Exception as exc:  # noqa: BLE001 - whatever the SDK raises, the service goes on without it
        log.error("telemetry.unusable", error=str(exc))  # noqa: TRY400 - says all
        return None


def _say_missing(exc: ImportError) -> None:
    log.error("telemetry.not_installed", error=str(exc), needs="agent-sandbox[telemetry]")
