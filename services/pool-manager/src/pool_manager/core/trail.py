"""The spans that a pool-manager knows of: the attempt that was lost, and what brings a session to its next worker. Pure."""

from __future__ import annotations

import msgspec

from shared import subjects
from shared.messages import TaskResult
from shared.record import Death, Record
from shared.traces import span as words
from shared.traces.context import Context, Sampling, Trace, parse_context, trace_of
from shared.traces.span import OURS, Link, Span, Value
from shared.traces.templates import template_of


class TaskInHand(msgspec.Struct, frozen=True, kw_only=True):
    """The task that an owner had in hand, or may have had."""

    task: str
    accepted_ms: int
    trace: Context | None
    """What its publisher said."""
    is_first: bool = False

    @staticmethod
    def first(record: Record) -> TaskInHand:
        """Return a session's first task."""
        return TaskInHand(
            task=record.session,
            accepted_ms=record.accepted_ms,
            trace=parse_context(record.traceparent, record.tracestate),
            is_first=True,
        )

    def trace_in(self, record: Record, sampling: Sampling) -> Trace:
        """Return the trace that it belongs to."""
        names = (record.tenant, record.session, self.task)
        return trace_of(self.trace, names, self.accepted_ms, sampling)


def names_of(record: Record, task: str = "") -> dict[str, Value]:
    """Return the attributes by which a session's spans are found."""
    named: dict[str, Value] = {
        f"{OURS}session.id": record.session,
        f"{OURS}tenant": record.tenant,
        f"{OURS}pool": record.pool,
        f"{OURS}epoch": record.epoch,
    }
    return {**named, f"{OURS}task.id": task} if task else named


def ended(
    record: Record, result: TaskResult, trace: Trace, times: tuple[int, int]
) -> tuple[Span, ...]:
    """Return the spans of a session's first task that no worker ends: its wait, if none ever had it, and its end.

    Args:
        record: as it was written with the result.
        result: the task's.
        trace: the task's.
        times: begin and end of the write, nanoseconds since 1970.
    """
    facts = {**names_of(record, result.task), f"{OURS}status": result.status}
    wait, end = trace.accepted(), trace.child("ended")
    begun_ns = min(record.accepted_ms * 1_000_000, times[0])
    waited = Span(
        name="wait in queue",
        trace=wait.trace_id,
        id=wait.span_id,
        parent="" if trace.is_root else trace.parent.span_id,
        state=wait.state,
        start_ns=begun_ns,
        end_ns=times[0],
        attributes=names_of(record, result.task),
    )
    written = Span(
        name="end task",
        trace=end.trace_id,
        id=end.span_id,
        parent=trace.parent.span_id,
        state=end.state,
        start_ns=times[0],
        end_ns=times[1],
        attributes=facts,
        error=result.reason or result.status,
    )
    return (written,) if record.attempt else (waited, written)


def lost_attempt(lost: Record, hit: TaskInHand, trace: Trace, death: Death, end_ns: int) -> Span:
    """Return the span of an attempt whose worker can not tell of it any more.

    It has the id that the worker would have given it: what the worker told before it died hangs under it.

    Args:
        lost: the record as the lost owner had it.
        hit: the task that it had in hand.
        trace: the task's.
        death: what was seen.
        end_ns: when it was given up, nanoseconds since 1970.
    """
    own = trace.attempt(hit.task, lost.epoch)
    begun_ms = (
        lost.claimed_ms
        if hit.is_first
        else max(lost.claimed_ms, hit.accepted_ms, lost.last_done_ms)
    )
    where = (lost.tenant, lost.session)
    subject = (
        subjects.task(lost.tenant, lost.pool, lost.client_lane)
        if hit.is_first
        else subjects.session_task(*where, hit.task)
    )
    template = template_of(subject)
    links = [Link.to(trace.parent, "creation")]
    if lost.interruptions:
        before = trace.attempt(hit.task, lost.interruptions[-1].epoch)
        links.append(Link.to(before, "previous_attempt"))
    return Span(
        name=f"process {template}",
        kind="consumer",
        trace=own.trace_id,
        id=own.span_id,
        parent=trace.parent.span_id,
        state=own.state,
        start_ns=min(begun_ms * 1_000_000, end_ns),
        end_ns=end_ns,
        attributes={
            **words.messaging("process", "process", subject, template),
            **names_of(lost, hit.task),
            f"{OURS}attempt": max(lost.attempt, 1),
            f"{OURS}node": lost.node or "",
            words.CONVERSATION_ID: hit.task,
            words.CLIENT_ID: lost.owner or "",
            f"{OURS}status": "lost",
            f"{OURS}recovery.cause": death.cause,
        },
        links=tuple(links),
        error="worker_lost",
    )
