"""What is declared, and how it is exported: by the rules of Prometheus' own parsers."""

from __future__ import annotations

import re

import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from shared.metrics import DECLARED, OTHER, Book, Metric, declared
from shared.metrics.book import SERIES_MAX

ALL = {metric.name: metric for metrics in DECLARED.values() for metric in metrics}
IDS = {"tenant", "session", "task", "worker", "pod", "node", "id", "subject", "epoch", "attempt"}


def filled(metrics: tuple[Metric, ...]) -> Book:
    """Return a book with one value in each metric."""
    book = Book(metrics)
    for metric in metrics:
        match metric.kind:
            case "counter":
                book.add(metric, *metric.labels, amount=2)
            case "gauge":
                book.set(metric, *metric.labels, value=3)
            case "histogram":
                book.observe(metric, *metric.labels, seconds=0.3)
    return book


@pytest.mark.parametrize("metric", ALL.values(), ids=ALL)
def test_a_declaration_keeps_the_rules_of_names_labels_and_buckets(metric: Metric) -> None:
    """A prefix, a unit at the end, no id as a label, each label explained, buckets in order."""
    assert re.fullmatch(r"agent_sandbox_[a-z_]+", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert metric.name.endswith("_seconds") or metric.kind != "histogram"
    assert metric.help.endswith(".")
    assert IDS.isdisjoint(metric.labels)
    assert set(metric.labels) <= declared.LABELS.keys()
    assert bool(metric.buckets) == (metric.kind == "histogram")
    assert list(metric.buckets) == sorted(set(metric.buckets))


@pytest.mark.parametrize("service", DECLARED)
def test_every_declared_metric_is_exported_as_prometheus_reads_it(
    service: declared.Service,
) -> None:
    """Name, kind, help, labels and value, in both formats."""
    book = filled(DECLARED[service])
    text, kind = book.render()
    families = {family.name: family for family in text_string_to_metric_families(text.decode())}
    accept = "application/openmetrics-text;version=1.0.0"
    modern, modern_kind = book.render(accept)
    also = {family.name for family in openmetrics.text_string_to_metric_families(modern.decode())}

    assert kind.startswith("text/plain; version=0.0.4")
    assert modern_kind.startswith("application/openmetrics-text")
    for metric in DECLARED[service]:
        family = families[metric.name.removesuffix("_total")]
        assert family.name in also
        assert (family.type, family.documentation) == (metric.kind, metric.help)
        assert {name for sample in family.samples for name in sample.labels} - {"le"} == set(
            metric.labels
        )
        values = {sample.name: sample.value for sample in family.samples}
        if metric.kind == "histogram":
            assert (values[f"{metric.name}_count"], values[f"{metric.name}_sum"]) == (1, 0.3)
        else:
            assert values[metric.name] == {"counter": 2, "gauge": 3}[metric.kind]


def test_the_number_of_series_of_a_metric_is_bounded() -> None:
    """Whatever comes beyond is still counted, under one label."""
    book = Book((declared.RESULTS,))
    for number in range(SERIES_MAX + 10):
        book.add(declared.RESULTS, f"pool-{number}", "ok")
    (family,) = [
        family
        for family in text_string_to_metric_families(book.render()[0].decode())
        if family.name == "agent_sandbox_results"
    ]
    values = {s.labels["pool"]: s.value for s in family.samples if s.name.endswith("_total")}

    assert len(values) == SERIES_MAX + 1
    assert values[OTHER] == 10


def test_what_seems_to_have_ended_before_it_began_took_no_time() -> None:
    """Clocks of machines differ; a negative sum would make every average wrong."""
    book = Book((declared.RUN,))
    book.observe(declared.RUN, "default", seconds=-3)

    assert b'agent_sandbox_run_duration_seconds_sum{pool="default"} 0.0' in book.render()[0]
