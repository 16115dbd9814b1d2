"""Spans as plain data become what any backend reads; what goes wrong on the way costs the service nothing."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from shared.errors import Unavailable
from shared.testing.otlp import Receiver, receive
from shared.traces import Context, Link, PlainTracer, Sink, Span, SpanBatch
from shared.traces.settings import open_sdk, open_traces
from shared.traces.span import SPANS_MAX, TEXT_LENGTH_MAX, messaging

TRACE, SPAN, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", "b7ad6b7169203331"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """What takes the spans."""
    with receive() as listening:
        yield listening


def open_sink(patch: pytest.MonkeyPatch, **environ: str) -> Sink:
    """Return a sink as these variables ask for; the SDK reads them itself, too."""
    for name, value in environ.items():
        patch.setenv(name, value)
    traces = open_traces(environ, "pool-manager", "pm-1")
    assert traces is not None
    return traces.sink


def span(name: str = "claim session", **fields: object) -> Span:
    """Return a span."""
    given = {"trace": TRACE, "id": SPAN, "parent": PARENT, "start_ns": 10**18, "end_ns": 10**18 + 5}
    return Span(name=name, **{**given, **fields})  # type: ignore[arg-type]  # a test's own fields


def test_a_span_arrives_as_it_was_noted(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ids, times, kind, attributes, links, error, state; and whose it is, where the environment does not say other."""
    sink = open_sink(
        monkeypatch,
        OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url,
        OTEL_RESOURCE_ATTRIBUTES="service.namespace=mine,team=a",
    )
    noted = span(
        kind="consumer",
        attributes={"a": 1, "b": True, "c": "x", "d": 0.5},
        links=(Link(TRACE, PARENT, "creation"),),
        error="exit_code",
        state="v=1",
    )
    sink.take(SpanBatch(service="worker-agent", instance="w-1", node="n-1", spans=(noted,)))
    sink.close()
    (came,) = receiver.spans()

    assert (came.trace, came.id, came.parent, came.state) == (TRACE, SPAN, PARENT, "v=1")
    assert (came.start_ns, came.end_ns, came.kind) == (10**18, 10**18 + 5, "consumer")
    assert came.attributes == {"a": 1, "b": True, "c": "x", "d": 0.5, "error.type": "exit_code"}
    assert came.failed
    assert came.links == ((TRACE, PARENT, "creation"),)
    assert came.resource == {
        "service.namespace": "mine",
        "service.name": "worker-agent",
        "service.instance.id": "w-1",
        "k8s.pod.name": "w-1",
        "k8s.node.name": "n-1",
        "team": "a",
    }


@pytest.mark.parametrize(
    "bad",
    [
        {"id": "no id"},
        {"id": SPAN + "0"},
        {"trace": "f" * 33},
        {"parent": "-" + "f" * 16},
        {"links": (Link(TRACE, "f" * 17, "token"),)},
        {"start_ns": -1},
        {"end_ns": 1 << 64},
    ],
    ids=str,
)
def test_rubbish_of_a_worker_is_left_out(
    bad: dict[str, object], receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What no exporter can write takes nothing else with it; more spans than a message may hold are cut off."""
    sink = open_sink(monkeypatch, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url)
    rubbish = span(**bad)
    sink.take(SpanBatch(service="s", instance="i", spans=(rubbish, *[span()] * (SPANS_MAX + 10))))
    sink.close()

    assert len(receiver.spans()) == SPANS_MAX - 1
    assert (
        len(messaging("ack", "settle", "x" * 1000, "t")["messaging.destination.name"])
        == TEXT_LENGTH_MAX
    )  # type: ignore[arg-type]  # a text


HUNG = f"""
import os, time
from shared.traces import Span, SpanBatch
from shared.traces.settings import open_sdk, open_traces

sink = open_traces(os.environ, "s", "i").sink
span = Span(name="claim session", trace="{TRACE}", id="{SPAN}", parent="{PARENT}", start_ns=1, end_ns=2)
for _ in range(200):  # many times the queue's 2,048 places
    sink.take(SpanBatch(service="s", instance="i", spans=(span,) * {SPANS_MAX}))
began = time.monotonic()
sink.close()
print(time.monotonic() - began)
"""


def test_a_collector_that_hangs_holds_nobody_up() -> None:
    """Spans are dropped when the queue is full; a service ends within its bound.

    In a process of its own: the exporter's thread tries on until its process ends.
    """
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        ended = subprocess.run(
            [sys.executable, "-c", HUNG],
            env={**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}"},
            stdout=subprocess.PIPE,
            check=True,
            timeout=40,
        )

    assert float(ended.stdout.split()[-1]) < 10


@pytest.mark.parametrize("name", ["no_such_exporter", "no_such_exporter,otlp"])
def test_an_exporter_that_there_is_not_is_left_out(
    name: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others still work; with none left traces are off."""
    environ = {"OTEL_TRACES_EXPORTER": name, "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
    traces = open_traces(environ, "s", "i")

    assert (traces is not None) == ("otlp" in name.split(","))
    if traces is not None:
        traces.sink.close()


def test_a_publish_is_a_span_only_within_one() -> None:
    """Heartbeats and the like are no part of anybody's task; what is not sampled is passed on and not noted."""
    noted: list[Span] = []
    tracer = PlainTracer(noted.extend)
    subject, fields, quiet = "q.0.acme.p.recovery", {"Nats-Msg-Id": "m-1"}, dict[str, str]()
    with tracer.publishing(subject, quiet, 0):
        pass
    with tracer.acting("recover session", Context(TRACE, PARENT, sampled=False)):
        pass
    with (
        tracer.acting("recover session", Context(TRACE, PARENT)),
        tracer.publishing(subject, fields, 7),
    ):
        pass
    publish, recover = noted

    assert quiet == {}
    assert (publish.name, publish.parent, publish.kind) == (
        "publish q.{shard}.{tenant}.{pool}.{class}",
        recover.id,
        "producer",
    )
    assert fields["traceparent"] == f"00-{TRACE}-{publish.id}-01"
    assert publish.attributes["messaging.message.body.size"] == 7
    assert recover.parent == PARENT


def test_a_span_that_ends_with_our_error_names_its_code() -> None:
    """And the error goes on."""
    noted: list[Span] = []
    with pytest.raises(Unavailable), PlainTracer(noted.extend).acting("x", Context(TRACE, PARENT)):
        raise Unavailable("no leader")

    assert noted[0].error == "unavailable"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_BSP_MAX_QUEUE_SIZE", "-5"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1000000"),
        ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "many"),
    ],
)
def test_a_variable_that_the_sdk_does_not_take_costs_the_traces_and_nothing_else(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service starts, a command runs."""
    monkeypatch.setenv(name, value)
    environ = {"OTEL_TRACES_EXPORTER": "console", name: value}
    assert open_sdk(environ, "gateway", "g-1") is None
    traces = open_traces(environ, "pool-manager", "pm-1")
    assert (traces is None) == name.startswith("OTEL_BSP")
    if traces is not None:
        traces.sink.close()
