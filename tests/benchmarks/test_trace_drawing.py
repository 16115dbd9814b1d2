"""The picture of a trace: every span once, below its parent; and the one in the documents is of a recovery."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from tracing_parts.drawing import draw, in_tree_order, step_ns

from shared.testing.otlp import Received

DOCS = Path(__file__).parents[2] / "docs"
TEXT = "{http://www.w3.org/2000/svg}text"


def span(
    name: str, parent: str, ends_ms: tuple[int, int], *links: tuple[str, str, str]
) -> Received:
    """Return a span whose id is its name."""
    begin, end = (ms * 1_000_000 for ms in ends_ms)
    return Received(
        name=name, kind="internal", trace="t", id=name, parent=parent, start_ns=begin, end_ns=end,
        attributes={}, links=links, failed=name == "lost", state="", resource={"service.name": "worker-agent"},
    )  # fmt: skip


SPANS = [
    span("second", "root", (60, 90), ("t", "lost", "previous_attempt")),
    span("part", "lost", (12, 20)),
    span("<root>", "caller's, elsewhere", (0, 100)),
    span("lost", "root", (10, 50)),
    span("root", "<root>", (1, 99)),
]


def test_children_stand_below_their_parent_in_the_order_of_time() -> None:
    """A parent that was exported elsewhere makes its child a root."""
    order = [(depth, one.name) for depth, one in in_tree_order(SPANS)]

    assert order == [(0, "<root>"), (1, "root"), (2, "lost"), (3, "part"), (2, "second")]


def test_every_span_is_drawn_with_its_name_and_time() -> None:
    """As SVG that a browser reads."""
    texts = [text.text for text in ET.fromstring(draw(SPANS, "a & b")).iter(TEXT)]

    assert {"a & b", "<root>", "root", "lost", "part", "second", "8.0 ms", "100 ms"} <= set(texts)
    assert draw(SPANS, "").count("<title>previous_attempt</title>") == 1
    assert 'class="failed"' in draw(SPANS, "")
    with pytest.raises(ValueError, match="without spans"):
        draw([], "")


@pytest.mark.parametrize(("length", "step"), [(1, 1), (6, 1), (100, 20), (291_000_000, 50_000_000)])
def test_lines_over_time_are_at_round_distances(length: int, step: int) -> None:
    """Some six of them."""
    assert step_ns(length) == step


def test_the_documents_show_a_trace_with_a_recovery_whose_spans_they_explain() -> None:
    """Drawn by `bench tracing` from what was received."""
    texts = [text.text or "" for text in ET.parse(DOCS / "trace-of-a-recovery.svg").iter(TEXT)]
    page = (DOCS / "tracing.md").read_text()
    names = {text for text in texts if re.match(r"[a-z]+ [a-z]", text)} - {"ended with an error"}

    assert {"run task", "recover session", "commit result"} <= names
    assert sum(text.startswith("process ") for text in texts) == 2
    explained = re.sub(r"q\.…", "q.{shard}.{tenant}.{pool}.{class}", page).replace(
        "task.…", "task.{tenant}.{pool}.{class}"
    )
    tokens = {"publish q.{shard}.{tenant}.{pool}.{class}"}
    assert [name for name in names - tokens if f"`{name}`" not in explained] == []
