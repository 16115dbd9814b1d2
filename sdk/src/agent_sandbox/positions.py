"""Where in a task's events a reader stands: opaque to users, valid on every connection and every gateway."""

from __future__ import annotations

import re
import zlib

import msgspec

from shared.errors import InvalidMessage

TEXT_LENGTH_MAX = 128
_NUMBERS = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,15}){4}", re.ASCII)
_END = "end"


class Position(msgspec.Struct, frozen=True):
    """What a reader has had."""

    epoch: int = 0
    """0: nothing yet."""
    attempt: int = 0
    number: int = 0
    """Messages of the attempt."""
    stdout: int = 0
    """Bytes of the attempt's stdout."""
    stderr: int = 0
    ended: bool = False
    """The result, too: there is nothing behind it."""

    def text(self, task: str) -> str:
        """Return the position in the task's events as readers are given it."""
        numbers = (self.epoch, self.attempt, self.number, self.stdout, self.stderr)
        where = _END if self.ended else ".".join(map(str, numbers))
        return f"{where}.{_mark(task)}"


START = Position()


def parse_position(text: str, task: str) -> Position:
    """Read a position that a reader was given.

    Raises:
        InvalidMessage: it is none, or one in another task's events.
    """
    where, _, mark = text.rpartition(".") if len(text) <= TEXT_LENGTH_MAX else ("", "", "")
    if where != _END and not _NUMBERS.fullmatch(where):
        raise InvalidMessage(f"after: no position of an event: {text[:TEXT_LENGTH_MAX]!r}")
    if mark != _mark(task):
        raise InvalidMessage(f"after: a position in the events of another task than {task}")
    if where == _END:
        return Position(ended=True)
    epoch, attempt, number, stdout, stderr = map(int, where.split("."))
    return Position(epoch, attempt, number, stdout, stderr)


def _mark(task: str) -> str:
    """Return a mark that finds mistakes; who forges one sees his own task's events in another order."""
    return f"{zlib.crc32(task.encode()):08x}"
