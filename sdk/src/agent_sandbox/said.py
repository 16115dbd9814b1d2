"""A task's messages as they lie about before they are put in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import msgspec

from shared import headers

_MESSAGE_BYTES = 512
"""What a message costs beside its body."""


class Said(msgspec.Struct, frozen=True):
    """One message of a task, its numbers read."""

    attempt: tuple[int, int]
    """Epoch and attempt."""
    number: int
    fields: Mapping[str, str]
    body: bytes

    @property
    def place(self) -> tuple[tuple[int, int], int]:
        """Order among all messages of the task."""
        return (self.attempt, self.number)

    @property
    def size(self) -> int:
        """What it costs in memory, bytes."""
        return len(self.body) + _MESSAGE_BYTES


class Queue:
    """Messages that wait, and their size."""

    def __init__(self) -> None:
        """Hold nothing."""
        self.said: deque[Said] = deque()
        self.size = 0

    def add(self, said: Said) -> None:
        """Put a message behind the others."""
        self.said.append(said)
        self.size += said.size

    def pop(self) -> Said:
        """Take the first one."""
        said = self.said.popleft()
        self.size -= said.size
        return said

    def clear(self) -> None:
        """Drop all."""
        self.said.clear()
        self.size = 0


def read_said(fields: Mapping[str, str], body: bytes) -> Said | None:
    """Read a message's numbers; None: it is none of a worker's."""
    epoch, attempt, number = (
        number_of(fields, name, -1) for name in (headers.EPOCH, headers.ATTEMPT, headers.NUMBER)
    )
    return None if min(epoch, attempt, number) < 0 else Said((epoch, attempt), number, fields, body)


def number_of(fields: Mapping[str, str], name: str, default: int = 0) -> int:
    """Return a header's number; `default` where it is none."""
    text = fields.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 15 else default
