"""A task as it came to its owner."""

from __future__ import annotations

import msgspec

from shared.errors import InvalidMessage
from shared.task import Task, decode_task


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """A task as it came."""

    task: str
    body: bytes
    accepted_ms: int
    inbox_seq: int | None = None
    """Stream sequence of its inbox entry; None for the session's first task."""
    problem: str | None = None
    """What its names break, by field and limit: it is not run."""
    replay_of: str = ""
    origin: str = ""
    """Stream and sequence that it came from, where they are known."""


def read_task(work: Work) -> Task:
    """Read a task.

    Raises:
        InvalidMessage: names the field and its limit.
    """
    if work.problem is not None:
        raise InvalidMessage(work.problem)
    return decode_task(work.body)
