"""Which trace a task belongs to, and what of it is kept: the same answer in every process."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.limits import TRACESTATE_LENGTH_MAX
from shared.traces import Context, Sampling, read_context
from shared.traces.context import parse_context, trace_of
from shared.traces.settings import is_asked, read_sampling

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"
NAMES = ("tenant", "session-1", "task-0001")


def test_a_context_is_read_and_written_as_w3c_says() -> None:
    """Flags other than the sampling are not ours to pass on."""
    context = read_context({"traceparent": PARENT, "tracestate": "a=1,b=2"})
    fields: dict[str, str] = {"tracestate": "old"}
    assert context == Context(TRACE, SPAN, sampled=True, state="a=1,b=2")
    context.put(fields)

    assert fields == {"traceparent": PARENT, "tracestate": "a=1,b=2"}
    assert read_context({"Traceparent": PARENT}) == Context(TRACE, SPAN)
    assert read_context({"traceparent": PARENT[:-2] + "02"}) == Context(TRACE, SPAN, sampled=False)
    assert parse_context(f"cc-{TRACE}-{SPAN}-01-what-comes-later") == Context(TRACE, SPAN)


@pytest.mark.parametrize(
    "rubbish",
    [
        *("", "-", "00", PARENT[:-1], PARENT + "0", PARENT + "-more", PARENT.upper(), "ff" + PARENT[2:]),
        *(f"00-{'0' * 32}-{SPAN}-01", f"00-{TRACE}-{'0' * 16}-01", PARENT.replace("b", "g")),
        *("0" * 100_000, "00-" + "é" * 32, PARENT + "\n", "cc" + PARENT[2:] + "-" + "x" * 300),
    ],
)  # fmt: skip
def test_rubbish_is_no_context(rubbish: str) -> None:
    """A publisher may send anything; its task is traced as if it had said nothing."""
    if rubbish == PARENT + "\n":
        assert parse_context(rubbish) == Context(TRACE, SPAN)  # space around a header means nothing
    else:
        assert parse_context(rubbish) is None


@pytest.mark.parametrize(
    "state", ["x" * (TRACESTATE_LENGTH_MAX + 1), "a=é", "a=\x00", ",".join(["a=1"] * 33)]
)
def test_a_tracestate_that_does_not_fit_is_left_out(state: str) -> None:
    """Its traceparent stays."""
    assert parse_context(PARENT, state) == Context(TRACE, SPAN)


@given(st.text(max_size=80), st.text(max_size=600))
def test_no_header_breaks_the_reading(parent: str, state: str) -> None:
    """Whatever comes is a context that can be written again, or none."""
    context = read_context({"traceparent": parent, "tracestate": state})

    assert context is None or parse_context(context.traceparent, context.state) == context


def test_a_task_without_a_context_gets_a_trace_that_all_agree_on() -> None:
    """Two workers and a pool-manager, who never speak of it, name the same trace, root and attempt."""
    one, other = (trace_of(None, NAMES, 17, Sampling()) for _ in range(2))
    later = trace_of(None, NAMES, 18, Sampling())

    assert one == other
    assert one.is_root
    assert one.accepted() == one.parent
    assert one.attempt("task-0001", 1) == other.attempt("task-0001", 1)
    assert one.attempt("task-0001", 1) != one.attempt("task-0001", 3)
    assert one.parent.trace_id != later.parent.trace_id


def test_a_task_goes_on_with_its_publishers_trace() -> None:
    """Its spans hang under the publish; what the publisher noted for others is passed on."""
    parent = Context(TRACE, SPAN, state="a=1")
    trace = trace_of(parent, NAMES, 17, Sampling(0.0))

    assert trace.sampled
    assert not trace.is_root
    assert trace.accepted().trace_id == TRACE
    assert trace.accepted().span_id != SPAN
    assert trace.attempt("task-0001", 1).state == "a=1"


@pytest.mark.parametrize(
    ("sampler", "argument", "asked_for", "not_asked_for", "own"),
    [
        ("", "", True, False, True),
        ("parentbased_always_on", "", True, False, True),
        ("parentbased_always_off", "", True, False, False),
        ("parentbased_traceidratio", "0", True, False, False),
        ("always_on", "", True, True, True),
        ("always_off", "", False, False, False),
        ("traceidratio", "0", False, False, False),
        ("traceidratio", "1", True, True, True),
        ("traceidratio", "many", True, True, True),
        ("no_such_sampler", "", True, False, True),
    ],
)
def test_samplers_mean_what_the_standard_says(
    sampler: str, argument: str, asked_for: bool, not_asked_for: bool, own: bool
) -> None:
    """Publishers that want their trace kept, those that do not, and those that say nothing."""
    sampling = read_sampling({"OTEL_TRACES_SAMPLER": sampler, "OTEL_TRACES_SAMPLER_ARG": argument})
    kept = [
        trace_of(parent, NAMES, 17, sampling).sampled
        for parent in (Context(TRACE, SPAN), Context(TRACE, SPAN, sampled=False), None)
    ]

    assert kept == [asked_for, not_asked_for, own]


def test_a_ratio_keeps_its_part_and_the_same_part_everywhere() -> None:
    """As the SDK decides it, so that its spans and ours are kept together."""
    from opentelemetry.sdk.trace.sampling import TraceIdRatioBased  # noqa: PLC0415 - to compare with

    theirs = TraceIdRatioBased(0.25)
    traces = [trace_of(None, ("t", "s", str(n)), n, Sampling(0.25)) for n in range(2000)]
    kept = [trace.sampled for trace in traces]

    assert 400 < sum(kept) < 600
    assert kept == [
        theirs.should_sample(None, int(trace.parent.trace_id, 16), "").decision.is_sampled()
        for trace in traces
    ]


@pytest.mark.parametrize(
    ("environ", "on"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "x"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, False),
        ({"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, False),
    ],
)
def test_traces_are_on_where_an_exporter_or_an_endpoint_is_named(
    environ: dict[str, str], on: bool
) -> None:
    """Off unless asked for."""
    assert is_asked(environ) is on
