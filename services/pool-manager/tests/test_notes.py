"""What a pool-manager tells of tasks: the attempt that was lost, the recovery, the end that no worker wrote."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from pool_manager.core import ends
from pool_manager.core.trail import TaskInHand
from pool_manager.loops.note import Notes
from shared.record import Death, Origin, Record
from shared.traces import Context, PlainTracer, Sampling, Span
from shared.transitions import create, ended_unborn

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
DEATH = Death(cause="process_exit", process_died=True, silent_ms=12)
PARENT = f"00-{TRACE}-{SPAN}-01"


def owned(traceparent: str = "") -> Record:
    """Return a session whose first task runs."""
    origin = Origin(
        session="session-1", tenant="acme", pool="p", lane="batch", accepted_ms=1_000, traceparent=traceparent
    )  # fmt: skip
    return create(origin, owner="w-1", node="n-1", now_ms=2_000)


def noting(told: list[Span]) -> Notes:
    """Return notes that are kept."""
    return Notes(PlainTracer(told.extend), Sampling())


def test_a_lost_attempt_has_the_id_that_its_worker_would_have_given_it() -> None:
    """So what the worker told before it died hangs under it."""
    told: list[Span] = []
    record = owned(PARENT)
    hit = TaskInHand.first(record)
    with noting(told).recovering(record, hit, DEATH, 5 * 10**9) as own:
        pass
    lost, recover = told
    assert own is not None
    assert (own.trace_id, own.span_id) == (TRACE, recover.id)
    trace = hit.trace_in(record, Sampling())

    assert (lost.id, lost.trace) == (trace.attempt("session-1", 1).span_id, TRACE)
    assert lost.name == "process task.{tenant}.{pool}.{class}"
    assert (lost.parent, lost.error, lost.start_ns) == (SPAN, "worker_lost", 2 * 10**9)
    assert lost.attributes["messaging.client.id"] == "w-1"
    assert (recover.parent, recover.start_ns) == (SPAN, 5 * 10**9)
    assert [(link.span, link.why) for link in recover.links] == [(lost.id, "lost_attempt")]
    assert recover.attributes["agent_sandbox.recovery.silent_ms"] == 12


def test_a_later_tasks_lost_attempt_begins_when_its_turn_came() -> None:
    """Not with the claim, which may have been days ago."""
    told: list[Span] = []
    record = msgspec.structs.replace(owned(), first_done=True, last_done_ms=7_000)
    hit = TaskInHand(task="task-0002", accepted_ms=6_000, trace=Context(TRACE, SPAN))
    with noting(told).recovering(record, hit, DEATH, 9 * 10**9):
        pass

    assert told[0].start_ns == 7 * 10**9
    assert told[0].name == "process session.{tenant}.{session}.{task}"
    assert told[0].attributes["messaging.destination.name"] == "session.acme.session-1.task-0002"


@pytest.mark.parametrize(
    ("record", "hit", "on"),
    [(owned(PARENT[:-2] + "00"), True, True), (owned(), False, True), (owned(PARENT), True, False)],
)
def test_not_sampled_no_task_or_off_nothing_is_told(record: Record, hit: bool, on: bool) -> None:
    """And the work goes on."""
    told: list[Span] = []
    notes = noting(told) if on else Notes()
    with notes.recovering(record, TaskInHand.first(record) if hit else None, DEATH, 1) as own:
        assert own is None
    with notes.waking(record, None, "batch"):
        pass

    assert told == []


def test_a_task_that_nobody_had_has_its_wait_and_its_end_in_the_trace() -> None:
    """The wait is the root where the publisher said nothing; a task that was tried has told of its wait."""
    told: list[Span] = []
    origin = Origin(session="session-1", tenant="acme", pool="p", lane="batch", accepted_ms=1_000)
    record = ended_unborn(origin, state="expired", reason="deadline", now_ms=9_000)
    result = ends.result("session-1", record, ends.EXPIRED, now_ms=9_000)
    noting(told).ended(record, result, 9 * 10**9)
    wait, end = told

    assert (wait.name, wait.parent, wait.start_ns, wait.end_ns) == (
        "wait in queue",
        "",
        10**9,
        9 * 10**9,
    )
    assert (end.name, end.parent, end.error) == ("end task", wait.id, "deadline")
    told.clear()
    noting(told).ended(msgspec.structs.replace(record, attempt=1), result, 9 * 10**9)
    noting(told).ended(record, msgspec.structs.replace(result, task="task-0002"), 9 * 10**9)
    assert [span.name for span in told] == ["end task"]


@pytest.mark.parametrize(
    ("fields", "known"),
    [
        (
            {
                "Nats-Subject": "in.0.acme.session-1.task-0002",
                "Nats-Time-Stamp": "2026-11-30T03:00:00.5Z",
            },
            True,
        ),
        ({"Nats-Subject": "in.0.acme.session-1.task-0002", "Nats-Time-Stamp": "yesterday"}, False),
        ({}, False),
    ],
)
def test_an_entrys_trace_is_read_from_what_its_stream_repeats(
    fields: Mapping[str, str], known: bool
) -> None:
    """The same as the worker derives it from the entry itself."""
    trace = noting([]).of_entry(fields, "acme", "session-1")
    hit = TaskInHand(task="task-0002", accepted_ms=1796007600500, trace=None)

    assert trace == (hit.trace_in(owned(), Sampling()) if known else None)
    assert Notes().of_entry(fields, "acme", "session-1") is None
