"""Tasks as they are shown."""

from __future__ import annotations

from litestar import Response

from agent_sandbox import Client, RunningTask
from shared.errors import NotFound
from shared.rest import TaskView
from shared.views import SessionAnswer, ShowAsk


def links_of(session: str, task: str) -> dict[str, str]:
    """Return where a task and what belongs to it are found."""
    own = f"/v1/tasks/{task}" if session == task else f"/v1/sessions/{session}/tasks/{task}"
    return {
        "self": own,
        "result": f"{own}/result",
        "output": f"{own}/output",
        "cancel": f"{own}/cancel",
        "session": f"/v1/sessions/{session}",
    }


def created(running: RunningTask, pool: str) -> Response[TaskView]:
    """Return the answer to a create: it is accepted."""
    links = links_of(running.session_id, running.task_id)
    view = TaskView(
        task=running.task_id, session=running.session_id, state="accepted", pool=pool, links=links
    )
    return Response(view, status_code=202, headers={"location": links["self"]})


async def view_of(client: Client, session: str, task: str, links: dict[str, str]) -> TaskView:
    """Return where a task stands.

    Raises:
        NotFound: nothing is known of its session.
        ServiceError: others as `Client.read_result` and `Client.ask`.
    """
    result = await client.read_result(task, session_id=session)
    if result is not None:
        return TaskView(
            task=task,
            session=session,
            state="ended",
            pool=result.raw.pool,
            result=result.raw,
            links=links,
        )
    answer = await client.ask("session", ShowAsk(session=session), SessionAnswer)
    if answer.record is None:
        raise NotFound(f"task {task} is not known (yet)")
    state = "started" if answer.task == task else "accepted"
    return TaskView(
        task=task,
        session=session,
        state="started" if state == "started" else "accepted",
        pool=answer.record.pool,
        links=links,
    )
