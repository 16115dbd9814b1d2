"""A task as it came to its owner."""

from __future__ import annotations

import msgspec

from shared.errors import InvalidMessage
from shared.messages import StartPath
from shared.task import Task, decode_task
from shared.traces.context import Context


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """How a session came to this worker; wall clocks, nanoseconds since 1970."""

    subject: str
    message_id: str
    body_bytes: int
    token: Context | None
    """Who sent the token, where it came by one."""
    asked_ns: int
    claimed_ns: int
    settled_ns: int


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """How a task came into the worker's hands, and when; the worker's clock, milliseconds since 1970."""

    path: StartPath
    delivered_ms: float
    claimed_ms: float
    arrival: Arrival | None = None
    """The message that asked this worker to take the session; None: it had the session already."""


def path_of(sent_ms: int, waiting_since_ms: float | None) -> StartPath:
    """Return whether a worker was waiting already when its work was sent.

    A bell alone does not say so: it also rings for what waited before there was a worker, and whoever hears it pulls
    the oldest message of its lane.

    Args:
        sent_ms: when the queue stored the message, by the servers' clock, cut to whole milliseconds.
        waiting_since_ms: since when the worker has heard bells, by its own clock; None: it asked its lanes at its start.
    """
    if waiting_since_ms is None:
        return "on-demand"
    return "warm" if sent_ms + 1 > waiting_since_ms else "on-demand"


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """A task as it came."""

    task: str
    body: bytes
    accepted_ms: int
    taken: Taken
    inbox_seq: int | None = None
    """Stream sequence of its inbox entry; None for the session's first task."""
    problem: str | None = None
    """What its names break, by field and limit: it is not run."""
    replay_of: str = ""
    origin: str = ""
    """Stream and sequence that it came from, where they are known."""
    trace: Context | None = None
    """The trace that its publisher began."""


def read_task(work: Work) -> Task:
    """Read a task.

    Raises:
        InvalidMessage: names the field and its limit.
    """
    if work.problem is not None:
        raise InvalidMessage(work.problem)
    return decode_task(work.body)
