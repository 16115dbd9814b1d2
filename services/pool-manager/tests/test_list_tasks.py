"""A page of tasks while they end: what moves between two reads is in the page all the same, once."""

from __future__ import annotations

from typing import Any

import msgspec

from pool_manager.loops.list_tasks import READ_AT_ONCE, TaskLister
from pool_manager.ports import Entry, Known
from pool_manager.ports.results import Ended
from shared.messages import TaskResult
from shared.record import Record
from shared.views import TasksAsk

SESSION = "session-0001"
RECORD = Record(
    session=SESSION,
    tenant="acme",
    pool="default",
    state="running",
    lane="interactive",
    client_lane="interactive",
    keep=True,
    accepted_ms=1,
    first_done=True,
)


class Streams:
    """A session whose tasks end when the test says so."""

    def __init__(self, waiting: int) -> None:
        """Have so many tasks in the inbox, of which none has ended."""
        self.inbox = [f"task-{number:04}" for number in range(1, waiting + 1)]
        self.ends: list[str] = []
        self.on_read: Any = lambda: None

    async def ended(self, tenant: str, session: str, after_seq: int, limit: int) -> list[Ended]:
        """Return results; a moment later the world may have moved on."""
        found = [
            Ended(TaskResult(task=task, session=session, tenant=tenant, status="ok"), seq, seq)
            for seq, task in enumerate(self.ends, 1)
            if seq > after_seq
        ]
        self.on_read()
        return found[:limit]

    async def read(self, _tenant: str, _session: str) -> Known:
        """Return the record: its position covers what has ended."""
        return Known(msgspec.structs.replace(RECORD, position=len(self.ends)), 1)

    async def next_entry(self, tenant: str, session: str, after_seq: int) -> Entry | None:
        """Return the inbox's next entry."""
        if after_seq >= len(self.inbox):
            return None
        return Entry(tenant, session, self.inbox[after_seq], after_seq + 1, 1)

    async def result(self, _tenant: str, _session: str, task: str) -> str | None:
        """Return something where there is a result."""
        return task if task in self.ends else None


def lister(streams: Any) -> TaskLister:
    """Return a lister that reads there."""
    return TaskLister(streams, streams)


async def test_a_task_that_ends_between_two_reads_is_shown_once() -> None:
    """Its result was not there at the first read, its entry is passed at the second."""
    streams = Streams(3)

    def end_one() -> None:
        if len(streams.ends) < 2:
            streams.ends.append(streams.inbox[len(streams.ends)])

    streams.on_read = end_one

    page = await lister(streams).page("acme", TasksAsk(session=SESSION))

    assert sorted(row.task for row in page.tasks) == streams.inbox
    assert page.tasks[0].state == "ended"


async def test_a_long_inbox_is_read_in_pieces() -> None:
    """A page may be shorter than asked; the next one goes on where it ended."""
    streams = Streams(READ_AT_ONCE + 30)

    first = await lister(streams).page("acme", TasksAsk(session=SESSION, limit=500))
    second = await lister(streams).page(
        "acme", TasksAsk(session=SESSION, limit=500, after=first.next)
    )

    assert len(first.tasks) == READ_AT_ONCE
    assert [row.task for row in (*first.tasks, *second.tasks)] == streams.inbox
    assert [row.state for row in first.tasks[:2]] == ["running", "waiting"]
    assert {row.state for row in second.tasks} == {"waiting"}
    assert second.next is None
