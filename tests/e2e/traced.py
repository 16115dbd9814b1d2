"""What the tests of traces share: names, the standard variables, and how a trace is looked at."""

from __future__ import annotations

from shared.testing.look import until
from shared.testing.otlp import Received, Receiver

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CAME = ("wait in queue", "fetch q.{shard}.{tenant}.{pool}.{class}")
PARTS = (
    "claim session",
    "ack q.{shard}.{tenant}.{pool}.{class}",
    "restore workspace",
    "start program",
    "execute task",
    "commit result",
)
PUBLISH = "publish task.{tenant}.{pool}.{class}"
PROCESS = "process task.{tenant}.{pool}.{class}"
SKEW_NS = 1_000_000
"""The servers' clock is read in whole milliseconds."""


def variables(receiver: Receiver) -> dict[str, str]:
    """Return the standard variables that turn traces on."""
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
    }


async def spans_of(
    receiver: Receiver, task: str, *, last: str, within_s: float = 20
) -> list[Received]:
    """Return a task's trace once its span `last` has come."""

    def found() -> list[Received]:
        mine = [
            one for one in receiver.spans() if one.attributes.get("agent_sandbox.task.id") == task
        ]
        return receiver.spans(mine[0].trace) if mine else []

    await until(
        lambda: any(one.name == last and not one.failed for one in found()), within_s=within_s
    )
    return found()


def named(spans: list[Received], name: str) -> Received:
    """Return the one span of a name."""
    (one,) = [span for span in spans if span.name == name]
    return one


def check_tree(spans: list[Received], root: str = "") -> None:
    """One trace without a gap: every parent is there, ids are unique, nothing begins before its parent.

    Args:
        spans: of one trace.
        root: a span of a caller who exports elsewhere.
    """
    known = {span.id: span for span in spans}
    assert len(known) == len(spans)
    assert len({span.trace for span in spans}) == 1
    for span in spans:
        assert span.end_ns >= span.start_ns, span.name
        assert span.parent in known or span.parent == root, span.name
        if span.parent in known:
            assert span.start_ns >= known[span.parent].start_ns - SKEW_NS, span.name
    assert {link[0] for span in spans for link in span.links} <= {spans[0].trace}


def check_attempt(spans: list[Received], process: Received) -> None:
    """All parts of an attempt hang under it, within its time."""
    parts = [span for span in spans if span.parent == process.id]

    assert sorted(span.name for span in parts) == sorted(PARTS)
    assert all(span.end_ns <= process.end_ns for span in parts)
    assert all(span.service == "worker-agent" for span in parts)
