"""What a worker notes of its attempts: told when user code runs, and with the result; nothing where it must not."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
import pytest
import structlog
from holding import SESSION, FakeSandbox, FakeTruth, body, entry, hold, owned

from shared.errors import StaleEpoch
from shared.messages import Interruption
from shared.service import Stop
from shared.traces import Context, Span
from worker_agent.core.claims import Headers
from worker_agent.core.work import Arrival, Taken
from worker_agent.ports import Held

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
OTHER = "f" * 32


class Told:
    """Keeps what it is told, message by message."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.batches: list[tuple[Span, ...]] = []

    async def tell(self, spans: tuple[Span, ...]) -> None:
        """Keep them."""
        self.batches.append(spans)

    def names(self) -> list[list[str]]:
        """Return the spans' names."""
        return [[span.name for span in batch] for batch in self.batches]


def published(held: Held, flags: str = "01") -> Held:
    """Let the session's first task have come with a context."""
    record = msgspec.structs.replace(
        held.record, traceparent=f"00-{TRACE}-{SPAN}-{flags}", tracestate="a=1"
    )
    held.record = record
    return held


async def test_what_came_before_user_code_is_told_when_it_runs() -> None:
    """A worker that is killed afterwards has told it."""
    truth, sandbox, told = FakeTruth(), FakeSandbox(), Told()
    at_run: list[int] = []
    sandbox.after_run = [lambda: at_run.append(len(told.batches))]
    await hold(truth, sandbox, published(owned(truth, body(keep=False))), Stop(), spans=told)

    assert at_run == [1]
    assert told.names() == [
        ["wait in queue", "restore workspace", "start program"],
        ["execute task", "commit result", "process task.{tenant}.{pool}.{class}"],
    ]
    assert {span.trace for batch in told.batches for span in batch} == {TRACE}
    assert told.batches[1][-1].parent == SPAN
    assert told.batches[1][-1].state == "a=1"


async def test_each_task_of_a_session_is_in_its_own_trace() -> None:
    """Its context comes with its inbox entry, not with the session."""
    truth, told = FakeTruth(), Told()
    held = published(owned(truth, body(keep=True)))
    context = Context(OTHER, SPAN)
    truth.inbox = [msgspec.structs.replace(entry(1), headers=Headers(trace=context))]
    await hold(truth, FakeSandbox(), held, Stop(), spans=told)
    process = told.batches[3][-1]

    assert [batch[0].trace for batch in told.batches] == [TRACE, TRACE, OTHER, OTHER]
    assert process.name == "process session.{tenant}.{session}.{task}"
    assert process.attributes["agent_sandbox.task.id"] == "task-0001"


async def test_an_attempt_after_a_loss_links_to_the_one_before() -> None:
    """By the epoch that the record names: nobody told this worker a span's id."""
    truth, told = FakeTruth(), Told()
    first = published(owned(truth, body(keep=False)))
    await hold(truth, FakeSandbox(), first, Stop(), spans=told)
    lost = told.batches[1][-1]
    truth = FakeTruth()
    held = published(owned(truth, body(keep=False)))
    loss = Interruption(cause="process_exit", epoch=1, worker="w", revoked_ms=1)
    held.record = msgspec.structs.replace(held.record, epoch=3, attempt=2, interruptions=(loss,))
    held.seq = truth.put(held.record)
    await hold(truth, FakeSandbox(), held, Stop(), spans=told)
    process = told.batches[3][-1]

    assert {link.why: link.span for link in process.links} == {
        "creation": SPAN,
        "previous_attempt": lost.id,
    }
    assert "wait in queue" not in told.names()[2]  # the first attempt told of it


@pytest.mark.parametrize(("spans", "flags"), [(None, "01"), ("told", "00")])
async def test_off_or_not_sampled_nothing_is_told(spans: str | None, flags: str) -> None:
    """The publisher's word goes before ours."""
    truth, told = FakeTruth(), Told()
    held = published(owned(truth, body(keep=False)), flags)
    await hold(truth, FakeSandbox(), held, Stop(), spans=told if spans else None)

    assert truth.results[SESSION].status == "ok"
    assert told.batches == []


async def test_an_attempt_begins_when_the_record_says_that_it_was_claimed() -> None:
    """A pool-manager that tells of it in this worker's place knows nothing else: what hangs under it begins no earlier."""
    truth, told = FakeTruth(), Told()
    held = published(owned(truth, body(keep=False)))
    held.record = msgspec.structs.replace(held.record, claimed_ms=1_700)
    held.seq = truth.put(held.record)
    arrival = Arrival(
        subject="q.0.acme.default.interactive",
        message_id=SESSION,
        body_bytes=2,
        token=None,
        asked_ns=1_000_000_000,
        claimed_ns=1_900_000_000,
        settled_ns=1_950_000_000,
    )
    held.taken = Taken(path="warm", delivered_ms=1_200, claimed_ms=1_900, arrival=arrival)
    await hold(truth, FakeSandbox(), held, Stop(), spans=told)
    spans = {span.name: span for batch in told.batches for span in batch}
    process = spans["process task.{tenant}.{pool}.{class}"]

    assert process.start_ns == spans["claim session"].start_ns == 1_700_000_000
    assert spans["fetch q.{shard}.{tenant}.{pool}.{class}"].end_ns == 1_200_000_000
    assert all(
        span.start_ns >= process.start_ns for span in spans.values() if span.parent == process.id
    )


async def test_an_owner_that_was_revoked_tells_nothing_of_its_attempt() -> None:
    """Who revoked it has told that, under the same id."""
    truth, sandbox, told = FakeTruth(), FakeSandbox(), Told()
    held = published(owned(truth, body(keep=False)))

    def revoke() -> None:
        truth.put(msgspec.structs.replace(held.record, state="queued", owner=None, epoch=2))

    sandbox.after_run = [revoke]
    with pytest.raises(StaleEpoch):
        await hold(truth, sandbox, held, Stop(), spans=told)

    assert told.names() == [["wait in queue", "restore workspace", "start program"]]


async def test_lines_that_are_logged_meanwhile_name_the_span() -> None:
    """And those before and after do not."""
    truth, sandbox, told = FakeTruth(), FakeSandbox(), Told()
    seen: list[dict[str, Any]] = []
    sandbox.after_run = [lambda: seen.append(structlog.contextvars.get_contextvars())]
    with contextlib.ExitStack() as closing:
        closing.callback(structlog.contextvars.clear_contextvars)
        await hold(truth, sandbox, published(owned(truth, body(keep=False))), Stop(), spans=told)
        after = structlog.contextvars.get_contextvars()
    process = told.batches[1][-1]

    assert (seen[0]["trace_id"], seen[0]["span_id"]) == (process.trace, process.id)
    assert "trace_id" not in after
