"""The spans of one attempt, from the stamps that were taken on its way. Pure.

Names and attributes follow OpenTelemetry's conventions for messaging where there are some.
"""

from __future__ import annotations

import msgspec

from shared import subjects
from shared.messages import TaskResult, Timing
from shared.record import Record
from shared.traces import span as words
from shared.traces.context import Context, Trace
from shared.traces.span import OURS, Link, Span, Value
from shared.traces.templates import template_of
from worker_agent.core.results import Place
from worker_agent.core.work import Arrival, Work

SECOND_ATTEMPT = 2


class Trail(msgspec.Struct, frozen=True, kw_only=True):
    """What all spans of one attempt share."""

    trace: Trace
    record: Record
    work: Work
    place: Place

    @property
    def arrival(self) -> Arrival | None:
        """How the session came, if a message asked this worker to take it for this task."""
        return self.work.taken.arrival

    @property
    def begun_ns(self) -> int:
        """When the worker had the task, or the message that asked for it, in hand."""
        return _ns(self.work.taken.delivered_ms)

    @property
    def taken_ns(self) -> int:
        """When the attempt begins: as the record says it, by which others tell of it if this worker dies."""
        return self.begun_ns if self.arrival is None else _ns(self.record.claimed_ms)

    @property
    def own(self) -> Context:
        """The attempt's own span, `process`."""
        return self.trace.attempt(self.work.task, self.record.epoch)

    @property
    def subject(self) -> str:
        """Where the task was published."""
        record, task = self.record, self.work.task
        if self.work.inbox_seq is None:
            return subjects.task(record.tenant, record.pool, record.client_lane)
        return subjects.session_task(record.tenant, record.session, task)


def names_of(record: Record, task: str) -> dict[str, Value]:
    """Return the attributes by which a task's spans are found."""
    return {
        f"{OURS}session.id": record.session,
        f"{OURS}task.id": task,
        f"{OURS}tenant": record.tenant,
        f"{OURS}pool": record.pool,
        f"{OURS}attempt": max(record.attempt, 1),
        f"{OURS}epoch": record.epoch,
    }


def came(trail: Trail) -> tuple[Span, ...]:
    """Return the spans of how the task came here: the wait, the fetch, the claim, the ack."""
    spans = []
    if trail.record.attempt < SECOND_ATTEMPT:
        spans.append(_waited(trail))
    if trail.arrival is not None:
        spans += _arrived(trail, trail.arrival)
    return tuple(spans)


def _waited(trail: Trail) -> Span:
    """Return the wait between acceptance and this worker; the root where the publisher brought no trace."""
    end_ns = trail.begun_ns
    own = trail.trace.accepted()
    return Span(
        name="wait in queue",
        trace=own.trace_id,
        id=own.span_id,
        parent="" if trail.trace.is_root else trail.trace.parent.span_id,
        state=own.state,
        start_ns=min(trail.work.accepted_ms * 1_000_000, end_ns),
        end_ns=end_ns,
        attributes={
            **names_of(trail.record, trail.work.task),
            words.DESTINATION: trail.subject[: words.TEXT_LENGTH_MAX],
            words.CONVERSATION_ID: trail.work.task,
        },
    )


def _arrived(trail: Trail, arrival: Arrival) -> list[Span]:
    template = template_of(arrival.subject)
    _, _, pool, klass = subjects.parse_queue(arrival.subject)
    message: dict[str, Value] = {
        words.SUBSCRIPTION: subjects.consumer(pool, klass),
        words.CONVERSATION_ID: trail.work.task,
        words.MESSAGE_ID: arrival.message_id[: words.TEXT_LENGTH_MAX],
        words.CLIENT_ID: trail.place.worker,
    }
    token = arrival.token
    is_ours = token is not None and token.trace_id == trail.trace.parent.trace_id
    fetch = _span(
        trail,
        f"fetch {template}",
        (arrival.asked_ns, trail.begun_ns),
        words.messaging("fetch", "receive", arrival.subject, template) | message,
    )
    claim = _span(
        trail,
        "claim session",
        (trail.taken_ns, arrival.claimed_ns),
        names_of(trail.record, trail.work.task),
    )
    ack = _span(
        trail,
        f"ack {template}",
        (arrival.claimed_ns, arrival.settled_ns),
        words.messaging("ack", "settle", arrival.subject, template) | message,
    )
    return [
        msgspec.structs.replace(
            fetch,
            kind="client",
            parent=token.span_id if token and is_ours else trail.trace.parent.span_id,
            attributes={**fetch.attributes, words.BODY_SIZE: arrival.body_bytes},
        ),
        claim,
        msgspec.structs.replace(ack, kind="client"),
    ]


def started(trail: Trail, timing: Timing) -> tuple[Span, ...]:
    """Return what comes before the first instruction of user code: its workspace is made ready, its program started."""
    since_ns = trail.begun_ns if trail.arrival is None else trail.arrival.claimed_ns
    started_ns = max(since_ns, _ns(timing.started_ms))
    ready_ns = min(max(since_ns, _ns(timing.restored_ms)), started_ns)
    names = names_of(trail.record, trail.work.task)
    state: dict[str, Value] = {f"{OURS}workspace": _workspace_of(trail)}
    return (
        _span(trail, "restore workspace", (since_ns, ready_ns), names | state),
        _span(trail, "start program", (ready_ns, started_ns), names),
    )


def _workspace_of(trail: Trail) -> str:
    """Return what the task finds: `new`, `kept`, `restored` from a snapshot, or `lost` (what there was is in none)."""
    record = trail.record
    if record.lost is not None:
        return "lost"
    if trail.arrival is None:
        return "kept"
    return "new" if record.boundary is None and record.latest is None else "restored"


def executed(trail: Trail, result: TaskResult) -> Span:
    """Return the run of user code."""
    timing = result.timing
    facts = dict(names_of(trail.record, trail.work.task))
    facts[f"{OURS}task.kind"] = result.kind
    facts[f"{OURS}isolation"] = trail.place.isolation
    if result.exit_code is not None:
        facts["process.exit.code"] = result.exit_code
    times = (_ns(timing.started_ms), _ns(max(timing.started_ms, timing.finished_ms)))
    return _span(trail, "execute task", times, facts, error=_error_of(result))


def saved(trail: Trail, times: tuple[int, int]) -> Span:
    """Return the save of the task's files, before its result is committed."""
    return _span(trail, "save workspace", times, names_of(trail.record, trail.work.task))


def committed(trail: Trail, result: TaskResult, times: tuple[int, int]) -> tuple[Span, ...]:
    """Return the commit of the result, and with it the whole attempt."""
    subject = trail.subject
    template = template_of(subject)
    facts = names_of(trail.record, trail.work.task)
    own = trail.own
    process: dict[str, Value] = {
        **words.messaging("process", "process", subject, template),
        **facts,
        words.CONVERSATION_ID: trail.work.task,
        words.CLIENT_ID: trail.place.worker,
        words.BODY_SIZE: len(trail.work.body),
        f"{OURS}node": trail.place.node,
        f"{OURS}status": result.status,
    }
    return (
        _span(trail, "commit result", times, {**facts, f"{OURS}status": result.status}),
        Span(
            name=f"process {template}",
            kind="consumer",
            trace=own.trace_id,
            id=own.span_id,
            parent=trail.trace.parent.span_id,
            state=own.state,
            start_ns=trail.taken_ns,
            end_ns=times[1],
            attributes=process,
            links=_links(trail),
            error=_error_of(result),
        ),
    )


def _links(trail: Trail) -> tuple[Link, ...]:
    """Return what else the attempt has to do with: its creation, the attempt before, and who brought it here."""
    links = [Link.to(trail.trace.parent, "creation")]
    if trail.record.interruptions:
        before = trail.trace.attempt(trail.work.task, trail.record.interruptions[-1].epoch)
        links.append(Link.to(before, "previous_attempt"))
    if trail.arrival is not None and trail.arrival.token is not None:
        links.append(Link.to(trail.arrival.token, "token"))
    return tuple(links)


def _error_of(result: TaskResult) -> str:
    return "" if result.status == "ok" else result.reason or result.status


def _span(
    trail: Trail,
    name: str,
    times: tuple[int, int],
    attributes: dict[str, Value],
    *,
    error: str = "",
) -> Span:
    """Return a part of the attempt."""
    part = trail.trace.child(name, trail.work.task, str(trail.record.epoch))
    return Span(
        name=name,
        trace=part.trace_id,
        id=part.span_id,
        parent=trail.own.span_id,
        state=part.state,
        start_ns=times[0],
        end_ns=times[1],
        attributes=attributes,
        error=error,
    )


def _ns(time_ms: float) -> int:
    return int(time_ms * 1_000_000)
