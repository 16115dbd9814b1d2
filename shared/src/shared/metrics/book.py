"""The values of one process' metrics. The only module that knows the Prometheus library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import choose_encoder

from shared.metrics.declared import Metric

disable_created_metrics()  # type: ignore[no-untyped-call]  # a third more series, for what the process' start tells
SERIES_MAX: Final = 500
"""Combinations of label values of one metric; what comes beyond is counted under `other`."""
OTHER: Final = "other"


class Book:
    """Counts, in any thread. A metric that the service did not declare is our bug: `KeyError`."""

    def __init__(self, declared: Sequence[Metric]) -> None:
        """Begin with all values at 0; a metric with labels appears with its first value."""
        self._registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self._registry)
        self._made = {metric.name: self._make(metric) for metric in declared}
        self._series: dict[str, set[tuple[str, ...]]] = {metric.name: set() for metric in declared}

    def _make(self, metric: Metric) -> Counter | Gauge | Histogram:
        about = (metric.name, metric.help, metric.labels)
        match metric.kind:
            case "counter":
                return Counter(*about, registry=self._registry)
            case "gauge":
                return Gauge(*about, registry=self._registry)
            case "histogram":
                return Histogram(*about, registry=self._registry, buckets=metric.buckets)

    def _at(self, metric: Metric, labels: tuple[str, ...]) -> Counter | Gauge | Histogram:
        made = self._made[metric.name]
        if not metric.labels:
            return made
        known = self._series[metric.name]
        if labels not in known:
            if len(known) >= SERIES_MAX:
                labels = (OTHER,) * len(labels)
            known.add(labels)
        return made.labels(*labels)

    def add(self, metric: Metric, *labels: str, amount: float = 1.0) -> None:
        """Count something; `amount` >= 0."""
        counter = self._at(metric, labels)
        assert isinstance(counter, Counter), metric.name
        counter.inc(amount)

    def set(self, metric: Metric, *labels: str, value: float) -> None:
        """Say how much of something there is now."""
        gauge = self._at(metric, labels)
        assert isinstance(gauge, Gauge), metric.name
        gauge.set(value)

    def observe(self, metric: Metric, *labels: str, seconds: float) -> None:
        """Note how long something took. Clocks differ: what seems to have ended before it began took no time."""
        histogram = self._at(metric, labels)
        assert isinstance(histogram, Histogram), metric.name
        histogram.observe(max(seconds, 0.0))

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """Return all values as a scraper asks for them, by its `Accept` header, and their content type."""
        try:
            encode, content_type = choose_encoder(accept)
        except (
            TypeError,
            ValueError,
        ):  # a version that is no number: such a scraper gets the plain form
            encode, content_type = choose_encoder("")
        return encode(self._registry), content_type
