"""Pages of a session's tasks: first what has ended, as it ended; then what runs or waits, as it came."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from shared.errors import InvalidMessage
from shared.messages import TaskResult
from shared.record import ENDED, OWNED, Record
from shared.views import TaskRow, TasksAnswer


class Place(msgspec.Struct, frozen=True):
    """Behind which row a page begins."""

    part: Literal["e", "i"] = "e"
    """`e`: among the results; `i`: behind the first task, in the inbox."""
    seq: int = 0

    def __str__(self) -> str:
        """Return what a client passes to go on here."""
        return f"{self.part}{self.seq}"


class Placed(msgspec.Struct, frozen=True):
    """A row, and where it stands."""

    row: TaskRow
    place: Place


def parse_place(text: str | None) -> Place:
    """Return what `next` of an earlier page says; None: the start.

    Raises:
        InvalidMessage: no page has said that.
    """
    if text is None:
        return Place()
    part, digits = text[:1], text[1:]
    if part not in ("e", "i") or not (digits.isascii() and digits.isdigit() and len(digits) < 20):
        raise InvalidMessage(f"after: `next` of an earlier page expected, got {text[:80]!r}")
    return Place("e" if part == "e" else "i", int(digits))


def ended_row(result: TaskResult, seq: int, stored_ms: int) -> Placed:
    """Return the row of a task that has its result."""
    row = TaskRow(
        task=result.task,
        state="ended",
        kind=result.kind,
        status=result.status,
        reason=result.reason or "",
        accepted_ms=result.timing.accepted_ms,
        ended_ms=stored_ms,
    )
    return Placed(row, Place("e", seq))


def first_row(record: Record | None) -> Placed | None:
    """Return the row of a session's first task, unless it has ended or nobody knows of it."""
    if record is None or record.first_done or record.state in ENDED:
        return None
    state: Literal["running", "waiting"] = "running" if record.state in OWNED else "waiting"
    row = TaskRow(task=record.session, state=state, accepted_ms=record.accepted_ms)
    return Placed(row, Place("i", 0))


def is_in_hand(record: Record | None) -> bool:
    """Return whether a worker is at the oldest task of the session's inbox."""
    return record is not None and record.first_done and record.state in OWNED


def inbox_row(task: str, seq: int, accepted_ms: int, *, runs: bool) -> Placed:
    """Return the row of a task in the inbox that has no result."""
    state: Literal["running", "waiting"] = "running" if runs else "waiting"
    return Placed(TaskRow(task=task, state=state, accepted_ms=accepted_ms), Place("i", seq))


def page_of(ended: Sequence[Placed], live: Iterable[Placed], limit: int) -> TasksAnswer:
    """Return one page; of a task that ended while it was read, the end alone is shown."""
    over = {placed.row.task for placed in ended}
    rows = [*ended, *(placed for placed in live if placed.row.task not in over)]
    page = rows[:limit]
    more = len(rows) > len(page)
    return TasksAnswer(
        tasks=tuple(placed.row for placed in page), next=str(page[-1].place) if more else None
    )
