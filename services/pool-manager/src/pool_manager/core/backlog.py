"""Plain task messages that wait in a lane, and when each is too old to run.

A message never changes, so each is read once, however long it waits.
"""

from __future__ import annotations

import msgspec

from shared import limits
from shared.errors import InvalidMessage
from shared.ids import TaskId, parse_task_id, task_id_of_delivery
from shared.record import Origin

TRACKED_MAX = 1000
"""Of one lane, the oldest."""


class Waiting(msgspec.Struct, frozen=True):
    """A plain task message that waits."""

    seq: int
    origin: Origin
    deadline_ms: int


class Backlog:
    """The oldest messages of one lane, in order."""

    def __init__(self) -> None:
        """Start empty."""
        self.cursor = 0
        """Stream sequence up to which messages were read."""
        self._waiting: dict[int, Waiting] = {}

    @property
    def is_full(self) -> bool:
        """Whether no more is read until some of it left."""
        return len(self._waiting) >= TRACKED_MAX

    def begins_at(self, oldest_seq: int) -> None:
        """The lane's oldest message is this one: those before it are gone."""
        for seq in [seq for seq in self._waiting if seq < oldest_seq]:
            del self._waiting[seq]
        self.cursor = max(self.cursor, oldest_seq - 1)

    def read(self, seq: int, waiting: Waiting | None) -> None:
        """A message was read; None: a token, which has no deadline."""
        self.cursor = max(self.cursor, seq)
        if waiting is not None:
            self._waiting[seq] = waiting

    def done(self, seq: int) -> None:
        """The message has its end, here or elsewhere."""
        self._waiting.pop(seq, None)

    def overdue(self, now_ms: int) -> list[Waiting]:
        """Return the messages whose deadline has passed."""
        return [waiting for waiting in self._waiting.values() if waiting.deadline_ms <= now_ms]


class _Deadline(msgspec.Struct):
    deadline_s: float = float(limits.DEADLINE_S_MAX)


_deadlines = msgspec.json.Decoder(_Deadline)


def deadline_ms(body: bytes, accepted_ms: int) -> int:
    """Return when a task is too old to run, milliseconds since 1970.

    A body that cannot be read is its puller's affair; until then it has the longest time.
    """
    longest = float(limits.DEADLINE_S_MAX)
    try:
        seconds = min(max(_deadlines.decode(body).deadline_s, 0.0), longest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        seconds = longest
    return accepted_ms + int(seconds * 1000)


def task_of(message_id: str | None, shard: int, seq: int) -> TaskId:
    """Return the id of a plain message's task, as every puller derives it."""
    if message_id is not None:
        try:
            return parse_task_id(message_id)
        except InvalidMessage:
            pass
    return task_id_of_delivery(shard, seq)
