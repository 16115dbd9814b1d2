"""Rule 1 of ownership: what the answer to a create or a claim means, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from shared import headers as names
from shared.classes import asked_class
from shared.errors import ErrorInfo, InvalidMessage
from shared.ids import TaskId, parse_task_id, task_id_of_delivery
from shared.quota import FULL_LASTS_S, FullTenants, TenantFull
from shared.record import Hold, Origin, Record, is_mine
from shared.subjects import parse_queue
from shared.traces.context import Context

TRIES_MAX = 5
"""Claims of one token that may lose against other writers before it is dropped; the sweeper sends another."""
SHARD_DOWN_S = 0.7
"""A state shard that did not answer is left alone for so long: a worker never waits for a shard."""

Step = Literal["won", "claim", "drop", "give_back"]


def after_read(record: Record | None, hold: Hold, *, creating: bool) -> Step:
    """Return what to do with a queue message after its record was read.

    Args:
        record: as the leader has it; None if there is none.
        hold: what this worker would own if its unanswered write had landed.
        creating: the message is a plain task message, whose puller creates the record.
    """
    if is_mine(record, hold):
        return "won"
    if record is None:
        # Its own create did not land (yet). Given back, because one that lands late is found out by the heartbeats,
        # which do not name it; a token without a record is a client's invention.
        return "give_back" if creating else "drop"
    return "claim" if record.state == "queued" else "drop"


class Full:
    """Tenants that get no new session, as pool-managers said it."""

    def __init__(self, at_start: Sequence[str], now: float) -> None:
        """Begin with what was known when the pod was made.

        Args:
            at_start: full tenants.
            now: monotonic clock.
        """
        self._tenants = {tenant: TenantFull(tenant, 0, 0) for tenant in at_start}
        self._until = now + FULL_LASTS_S

    def heard(self, said: FullTenants, now: float) -> None:
        """Take in what a pool-manager said; it names all that are full."""
        self._tenants = {one.tenant: one for one in said.full}
        self._until = now + FULL_LASTS_S

    def why(self, tenant: str, now: float) -> ErrorInfo | None:
        """Return why the tenant gets no new session; None: it does."""
        full = self._tenants.get(tenant)
        if full is None or now >= self._until:
            return None
        bound = f"at most {full.sessions_max}" if full.sessions_max else "as many as it may have"
        return ErrorInfo(
            code="limit_exceeded",
            message=f"tenant {tenant} has too many open sessions: {bound} (TENANT_SESSIONS_MAX); close some",
        )


class Headers(msgspec.Struct, frozen=True, kw_only=True):
    """What a publisher said beside the body."""

    message_id: str | None = None
    token: str | None = None
    replay_of: str | None = None
    klass: str | None = None
    """The class that a session's task says it asks for, whatever that may be; None: the session's own."""
    trace: Context | None = None
    """The trace that it belongs to; rubbish in its headers is none."""


class Request(msgspec.Struct, frozen=True):
    """What a plain queue message asks for."""

    origin: Origin
    task: TaskId
    problem: str | None
    """What its headers break, by field and limit; such a message is never run."""


def is_token(headers: Headers, body: bytes) -> bool:
    """Return whether a queue message asks a worker for a session that exists. A token has no body.

    One with a body is a client's task that used a header of ours: it was accepted, so it gets a result.
    """
    return headers.token is not None and not body


def read_request(subject: str, headers: Headers, *, stream_seq: int, time_ms: int) -> Request:
    """Return the session that a plain message founds. Tenant, pool and class come from its subject, never its body.

    A message without an id, or with one that cannot be a subject's token, gets the id of its delivery: any redelivery
    yields it again, and the PubAck tells it to the publisher.
    """
    shard, tenant, pool, klass = parse_queue(subject)
    problem: str | None = None
    task = task_id_of_delivery(shard, stream_seq)
    if headers.message_id is not None:
        try:
            task = parse_task_id(headers.message_id)
        except InvalidMessage as exc:
            problem = f"header {names.MESSAGE_ID}: {exc}"
    replay_of, bad = read_replay_of(headers)
    problem = problem or bad
    if headers.token is not None:
        problem = problem or f"header {names.TOKEN}: not for clients"
    origin = Origin(
        session=task,
        tenant=tenant,
        pool=pool,
        lane=klass,
        accepted_ms=time_ms,
        replay_of=replay_of,
        traceparent="" if headers.trace is None else headers.trace.traceparent,
        tracestate="" if headers.trace is None else headers.trace.state,
    )
    return Request(origin, task, problem)


def read_replay_of(headers: Headers) -> tuple[str, str | None]:
    """Return the task that this one is a replay of (empty: of none), and what is wrong with the header."""
    if headers.replay_of is None:
        return "", None
    try:
        return parse_task_id(headers.replay_of), None
    except InvalidMessage as exc:
        return "", f"header {names.REPLAY_OF}: {exc}"


def entry_problem(session: str, task: str, headers: Headers) -> str | None:
    """Return what an inbox entry's names break, by field and limit. Its task is the last token of its subject.

    Within ten minutes a stream keeps one message of each `Nats-Msg-Id`, whoever sent it. So that short task ids of
    different sessions do not meet there, `<session>:<task>` is as good an id as the task's own.
    """
    try:
        parse_task_id(task)
    except InvalidMessage as exc:
        return f"subject: {exc}"
    if headers.message_id not in (None, task, f"{session}:{task}"):
        return (
            f"header {names.MESSAGE_ID}: {task} (the subject's last token) or {session}:{task} expected, "
            f"got {headers.message_id[:80]!r}"
        )
    try:
        asked_class(headers.klass)
    except InvalidMessage as exc:
        return str(exc)
    return read_replay_of(headers)[1]
