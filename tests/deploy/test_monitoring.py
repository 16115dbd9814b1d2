"""The dashboards and alerts ask for what is exported, in the way in which replicas go together."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import promql_parser
import pytest
import yaml

from shared.metrics.declared import DECLARED, Metric

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "monitoring"
DASHBOARDS = sorted((FOLDER / "dashboards").glob("*.json"))
VARIABLES = {"$__rate_interval": "5m", "$pool": "default"}
"""What Grafana puts in their place."""
COUNTED = {"rate", "increase", "irate", "resets"}
SEVERITIES = {"page", "ticket"}


class Series(NamedTuple):
    """What can be asked for."""

    labels: frozenset[str]
    over: str
    counts: bool
    """It only grows: asked for by its rate."""


class Use(NamedTuple):
    """One selector, and what is around it."""

    selector: Any
    calls: tuple[str, ...]
    aggregates: tuple[tuple[str, tuple[str, ...]], ...]
    """Outermost first: operation and labels."""


def of_metric(metric: Metric, targets: frozenset[str]) -> Iterator[tuple[str, Series]]:
    """Yield the series of one metric."""
    labels = frozenset(metric.labels) | targets
    if metric.kind != "histogram":
        yield metric.name, Series(labels, metric.over, metric.kind == "counter")
        return
    yield f"{metric.name}_bucket", Series(labels | {"le"}, metric.over, True)
    for end in ("_sum", "_count"):
        yield metric.name + end, Series(labels, metric.over, True)


def target_labels() -> frozenset[str]:
    """Return the labels that scraping adds."""
    (job,) = yaml.safe_load((FOLDER / "scrape.yaml").read_text())["scrape_configs"]
    added = {one["target_label"] for one in job["relabel_configs"] if "target_label" in one}
    return frozenset(added | {"job", "instance"})


def exported() -> dict[str, Series]:
    """Return all series of all services, and of every process."""
    targets = target_labels()
    found = {
        "up": Series(targets, "each", False),
        "process_cpu_seconds_total": Series(targets, "each", True),
        "process_resident_memory_bytes": Series(targets, "each", False),
    }
    for metrics in DECLARED.values():
        for metric in metrics:
            found.update(of_metric(metric, targets))
    return found


def uses(expr: Any) -> Iterator[Use]:
    """Yield the selectors of an expression."""
    yield from _uses(expr, (), ())


def _uses(
    expr: Any, calls: tuple[str, ...], aggregates: tuple[tuple[str, tuple[str, ...]], ...]
) -> Iterator[Use]:
    match type(expr).__name__:
        case "VectorSelector":
            yield Use(expr, calls, aggregates)
        case "MatrixSelector":
            yield Use(expr.vector_selector, calls, aggregates)
        case "Call":
            for arg in expr.args:
                yield from _uses(arg, (*calls, expr.func.name), aggregates)
        case "AggregateExpr":
            labels = tuple(expr.modifier.labels) if expr.modifier else ()
            yield from _uses(expr.expr, calls, (*aggregates, (str(expr.op), labels)))
        case "BinaryExpr":
            yield from _uses(expr.lhs, calls, aggregates)
            yield from _uses(expr.rhs, calls, aggregates)
        case "ParenExpr" | "UnaryExpr" | "SubqueryExpr":
            yield from _uses(expr.expr, calls, aggregates)


def problems(text: str) -> list[str]:
    """Return what is wrong with an expression."""
    for name, value in VARIABLES.items():
        text = text.replace(name, value)
    if "$" in text:
        return [f"a variable that no dashboard has: {text}"]
    try:
        expr = promql_parser.parse(text)
    except ValueError as exc:
        return [f"{text}: {exc}"]
    series = exported()
    found: list[str] = []
    for use in uses(expr):
        name = use.selector.name
        if name not in series:
            found.append(f"{name}: nobody exports it")
            continue
        found += [f"{name}: {problem}" for problem in _wrong(use, series[name])]
    return found


def _wrong(use: Use, series: Series) -> Iterator[str]:
    asked = {one.name for one in use.selector.matchers.matchers}
    for label in asked.union(*(labels for _, labels in use.aggregates)) - series.labels:
        yield f"it has no label {label}"
    if series.counts != bool(COUNTED & set(use.calls)):
        yield "a counter is asked for by its rate, and nothing else is"
    if series.over == "max" and use.aggregates and "max" not in use.aggregates[-1][0]:
        yield f"each replica tells the whole: not by {use.aggregates[-1][0]}"
    if use.selector.name.endswith("_bucket"):
        if use.calls[0] != "histogram_quantile":
            yield "buckets are for quantiles"
        if not any("le" in labels for _, labels in use.aggregates):
            yield "`le` is lost before the quantile"


def panels(board: Path) -> list[dict[str, Any]]:
    """Return the panels of a dashboard that show something."""
    return [one for one in json.loads(board.read_text())["panels"] if one["type"] != "row"]


def alerts() -> list[dict[str, Any]]:
    """Return all alerts."""
    groups = yaml.safe_load((FOLDER / "rules.yaml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


@pytest.mark.parametrize("board", DASHBOARDS, ids=lambda path: path.stem)
def test_each_panel_asks_for_what_is_exported(board: Path) -> None:
    """By labels that it has, summed or not as its replicas need it."""
    shown = panels(board)
    wrong = [
        f"{panel['title']}: {problem}"
        for panel in shown
        for target in panel["targets"]
        for problem in problems(target["expr"])
    ]
    assert wrong == []
    assert len(shown) >= 6


@pytest.mark.parametrize("board", DASHBOARDS, ids=lambda path: path.stem)
def test_each_legend_shows_labels_that_are_left(board: Path) -> None:
    """A label that was summed away is an empty word on the screen."""
    for panel in panels(board):
        for target in panel["targets"]:
            shown = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            text = target["expr"]
            for name, value in VARIABLES.items():
                text = text.replace(name, value)
            for use in uses(promql_parser.parse(text)):
                left = set(use.aggregates[0][1]) if use.aggregates else shown
                assert shown <= left, (panel["title"], target["legendFormat"])


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_each_alert_asks_for_what_is_exported(alert: dict[str, Any]) -> None:
    """Its text names labels that its expression has left."""
    assert problems(alert["expr"]) == []
    assert alert["labels"]["severity"] in SEVERITIES
    left = re.findall(r"\$labels\.(\w+)", alert["annotations"]["summary"])
    for use in uses(promql_parser.parse(alert["expr"])):
        kept = set(use.aggregates[0][1]) if use.aggregates else set(target_labels())
        assert set(left) <= kept


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_each_alert_leads_to_what_it_means_and_what_to_do(alert: dict[str, Any]) -> None:
    """A section of its own, with the same severity."""
    page = (ROOT / "docs/alarms.md").read_text()
    sections = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", page, re.DOTALL | re.MULTILINE))
    name = alert["alert"]

    assert alert["annotations"]["runbook"] == f"docs/alarms.md#{name.lower()}"
    assert sections[name].startswith(f"*{alert['labels']['severity'].title()}.* ")
    assert "**Do:**" in sections[name]
    assert set(sections) == {one["alert"] for one in alerts()}


def test_what_is_shipped_is_all_that_is_there() -> None:
    """The folder that is applied holds each dashboard; no two of them, and no two alerts, have one name."""
    shipped = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["configMapGenerator"]
    files = {name for one in shipped for name in one["files"]}
    assert files == {f"dashboards/{path.name}" for path in DASHBOARDS} | {
        "rules.yaml",
        "scrape.yaml",
    }
    uids = [json.loads(path.read_text())["uid"] for path in DASHBOARDS]
    names = [alert["alert"] for alert in alerts()]
    assert len(set(uids)) == len(uids) == 3
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("max(agent_sandbox_pool_managers", "unclosed left parenthesis"),
        ("agent_sandbox_no_such_thing", "nobody exports it"),
        ("sum(rate(agent_sandbox_results[5m]))", "nobody exports it"),
        ('agent_sandbox_ready{pool="default"}', "no label pool"),
        ("max by (tenant) (agent_sandbox_sessions)", "no label tenant"),
        ("sum by (pool) (agent_sandbox_pool_stock_pods)", "each replica tells the whole"),
        ("sum(agent_sandbox_results_total)", "by its rate"),
        ("rate(agent_sandbox_ready[5m])", "by its rate"),
        (
            "histogram_quantile(0.9, sum by (pool) (rate(agent_sandbox_task_tti_seconds_bucket[5m])))",
            "`le` is lost",
        ),
        ("rate(agent_sandbox_task_tti_seconds_bucket[5m])", "buckets are for quantiles"),
        ("max(agent_sandbox_ready) > $limit", "a variable"),
    ],
)
def test_what_is_wrong_is_found(expression: str, problem: str) -> None:
    """Else this file would let anything pass."""
    assert problem in "\n".join(problems(expression))
