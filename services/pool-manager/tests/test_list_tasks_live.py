"""A session's tasks, listed on real servers."""

from __future__ import annotations

from typing import Any

import pytest

from pool_manager.core.task_pages import Place, parse_place
from shared import messages, subjects
from shared.bus import Bus
from shared.errors import InvalidMessage
from shared.testing.look import Look
from shared.testing.names import unique
from shared.testing.peers import NodePeer
from shared.views import TaskRow, TasksAnswer, TasksAsk


async def tasks(bus: Bus, session: str, *, tenant: str = "acme", **more: Any) -> TasksAnswer:
    """Ask as a client does."""
    body = messages.encode(TasksAsk(session=session, **more))
    answer = await bus.request(subjects.ask(tenant, "tasks"), body, timeout_s=3.0)
    return messages.decode(answer.data, TasksAnswer)


async def all_pages(bus: Bus, session: str, limit: int) -> list[TaskRow]:
    """Return every row, page by page; a page holds at most `limit`."""
    rows: list[TaskRow] = []
    after = None
    for _ in range(20):
        page = await tasks(bus, session, limit=limit, after=after)
        assert len(page.tasks) <= limit
        rows += page.tasks
        after = page.next
        if after is None:
            return rows
    raise AssertionError("endless")


def states(rows: Any) -> list[tuple[str, str]]:
    """Return (task, state) of rows."""
    return [(row.task, row.state) for row in rows]


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
async def test_ended_running_and_waiting_tasks_are_listed_in_this_order(
    start: Any, node: NodePeer, look: Look, limit: int
) -> None:
    """Each once, however small the pages; the first task of a session is one of its tasks."""
    await start("pm-1")
    session = unique("session")
    worker = (await node.warm(2))[0]
    await worker.create(session)
    before = await all_pages(look.bus, session, limit)
    await worker.finish()
    names = [unique("task") for _ in range(4)]
    seqs = [await look.send(session, name) for name in names]
    worker.task = names[0]
    await worker.finish(inbox_seq=seqs[0], status="failed")

    rows = await all_pages(look.bus, session, limit)

    assert states(before) == [(session, "running")]
    assert states(rows) == [
        (session, "ended"),
        (names[0], "ended"),
        (names[1], "running"),
        (names[2], "waiting"),
        (names[3], "waiting"),
    ]
    assert [row.status for row in rows] == ["ok", "failed", "", "", ""]
    assert all(row.accepted_ms for row in rows[2:])
    assert all(row.ended_ms for row in rows[:2])


async def test_one_state_alone_is_listed(start: Any, node: NodePeer, look: Look) -> None:
    """And pages count only what is asked for."""
    await start("pm-1")
    session = unique("session")
    worker = (await node.warm(2))[0]
    await worker.create(session)
    await worker.finish()
    names = [unique("task") for _ in range(3)]
    for name in names:
        await look.send(session, name)

    async def of(state: str, **more: Any) -> tuple[list[str], str | None]:
        page = await tasks(look.bus, session, state=state, **more)
        return [row.task for row in page.tasks], page.next

    assert await of("ended") == ([session], None)
    assert await of("running") == ([names[0]], None)
    waiting, following = await of("waiting", limit=1)
    assert waiting == names[1:2]
    assert await of("waiting", after=following) == (names[2:], None)


async def test_a_session_that_nobody_knows_and_that_of_another_tenant_are_not_found(
    start: Any, node: NodePeer, look: Look
) -> None:
    """The same words for both."""
    await start("pm-1")
    session = unique("session")
    worker = (await node.warm(2))[0]
    await worker.create(session)

    other = await tasks(look.bus, session, tenant="else")
    unknown = await tasks(look.bus, unique("session"))

    assert other.error is not None
    assert unknown.error is not None
    assert (other.error.code, unknown.error.code) == ("not_found", "not_found")


@pytest.mark.parametrize("text", ["", "x1", "e", "e-1", "i1.5", "e" + "9" * 20, "e\u0661"])
def test_a_place_that_no_page_named_is_refused(text: str) -> None:
    """By the field's name."""
    with pytest.raises(InvalidMessage, match="after"):
        parse_place(text)


@pytest.mark.parametrize("place", [Place(), Place("i", 0), Place("e", 2**62)])
def test_a_place_is_read_as_it_was_written(place: Place) -> None:
    """`next` goes out and comes back."""
    assert parse_place(str(place)) == place
