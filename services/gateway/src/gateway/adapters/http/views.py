"""Tasks as they are shown."""

from __future__ import annotations

import time

from litestar import Response

from agent_sandbox import Client, RunningTask
from gateway.adapters.http.waiting import READ_S, wait_result
from gateway.adapters.measuring import Meter
from shared import limits
from shared.errors import NotFound
from shared.messages import TaskResult
from shared.rest import TaskView, Tti
from shared.views import SessionAnswer, ShowAsk, TasksAnswer, TasksAsk

PAGES_MAX = 1 + limits.INBOX_ENTRIES_MAX // limits.ASK_ITEMS_MAX


def links_of(session: str, task: str, accepted_ms: int | None = None) -> dict[str, str]:
    """Return where a task and what belongs to it are found."""
    own = f"/v1/tasks/{task}" if session == task else f"/v1/sessions/{session}/tasks/{task}"
    when = "" if accepted_ms is None else f"?accepted_ms={accepted_ms}"
    return {
        "self": own + when,
        "result": f"{own}/result{when}",
        "output": f"{own}/output{when}",
        "stream": f"{own}/stream{when}",
        "cancel": f"{own}/cancel",
        "session": f"/v1/sessions/{session}",
    }


def accepted_view(running: RunningTask, pool: str = "") -> TaskView:
    """Return a task that was just published."""
    links = links_of(running.session_id, running.task_id, round(time.time() * 1000))
    return TaskView(
        task=running.task_id,
        session=running.session_id,
        state="accepted",
        pool=pool or running.pool,
        links=links,
    )


def accepted(running: RunningTask, pool: str = "") -> Response[TaskView]:
    """Return the answer to a publish whose result is not awaited."""
    view = accepted_view(running, pool)
    return Response(view, status_code=202, headers={"location": view.links["self"]})


def begun(names: tuple[str, str], pool: str, tti: Tti | None) -> TaskView:
    """Return a task whose code runs; `names` are its session and its own id."""
    session, task = names
    return TaskView(
        task=task,
        session=session,
        state="started",
        pool=pool,
        tti=tti,
        links=links_of(session, task),
    )


def ended(result: TaskResult, tti: Tti | None = None) -> TaskView:
    """Return a task that has its result."""
    return TaskView(
        task=result.task,
        session=result.session,
        state="ended",
        pool=result.pool,
        tti=tti,
        result=result,
        links=links_of(result.session, result.task),
    )


async def view_of(
    client: Client, meter: Meter, names: tuple[str, str], accepted_ms: int | None = None
) -> TaskView:
    """Return where a task stands.

    Args:
        client: of its tenant.
        meter: knows how soon it began.
        names: its session and its own id.
        accepted_ms: when the caller was told that it is accepted; None: he was not.

    Raises:
        NotFound: nothing is known of it.
        ServiceError: others as `Client.ask`.
    """
    session, task = names
    if (result := await wait_result(client, session, task, 0)) is not None:
        return ended(result, await meter.tti_of(client, names, result))
    answer = await client.ask("session", ShowAsk(session=session), SessionAnswer)
    record = answer.record
    if record is not None and answer.task != task:
        # It may have ended between the two questions, or at a server that was behind.
        result = await client.transport.read_result(session, task, timeout_s=READ_S)
        if result is not None:
            return ended(result, await meter.tti_of(client, names, result))
    pool = record.pool if record is not None else ""
    runs = answer.task == task
    if runs and (tti := await meter.tti_of(client, names, None)) is not None:
        return begun(names, pool, tti)
    if not runs and not _is_recent(accepted_ms) and not await _waits(client, session, task):
        raise NotFound(f"task {task} of session {session} is not known (yet)")
    return TaskView(
        task=task,
        session=session,
        state="started" if runs else "accepted",
        pool=pool,
        links=links_of(session, task, accepted_ms),
    )


def _is_recent(accepted_ms: int | None) -> bool:
    """Return whether a task that was accepted then may still wait for its first worker."""
    if accepted_ms is None:
        return False
    return 0 <= time.time() * 1000 - accepted_ms + 60_000 < (limits.DEADLINE_S_MAX + 60) * 1000


async def _waits(client: Client, session: str, task: str) -> bool:
    """Return whether a task is known to wait or run in a session."""
    after: str | None = None
    for _ in range(PAGES_MAX):
        ask = TasksAsk(session=session, limit=limits.ASK_ITEMS_MAX, after=after, state="waiting")
        page = await client.ask("tasks", ask, TasksAnswer)
        if any(row.task == task for row in page.tasks):
            return True
        after = page.next
        if after is None:
            break
    return False
