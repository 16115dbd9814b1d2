"""Rule 1 of ownership: what the answer to a create or a claim means, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from shared.errors import ErrorInfo, InvalidMessage
from shared.ids import TaskId, parse_task_id, task_id_of_delivery
from shared.quota import FULL_LASTS_S, FullTenants, TenantFull
from shared.record import Hold, Origin, Record, is_mine
from shared.subjects import parse_queue

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


class Request(msgspec.Struct, frozen=True):
    """What a plain queue message asks for."""

    origin: Origin
    task: TaskId
    bad_id: str | None
    """The message's own id, where it cannot be used."""


def read_request(subject: str, message_id: str | None, *, stream_seq: int, time_ms: int) -> Request:
    """Return the session that a plain message founds. Tenant, pool and class come from its subject, never its body.

    A message without an id, or with one that cannot be a subject's token, gets the id of its delivery, which any
    redelivery yields again.
    """

    shard, tenant, pool, klass = parse_queue(subject)
    bad: str | None = None
    task = task_id_of_delivery(shard, stream_seq)
    if message_id is not None:
        try:
            task = parse_task_id(message_id)
        except InvalidMessage:
            bad = message_id[:80]
    origin = Origin(session=task, tenant=tenant, pool=pool, lane=klass, accepted_ms=time_ms)
    return Request(origin, task, bad)
