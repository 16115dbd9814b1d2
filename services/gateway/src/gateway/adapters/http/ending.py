"""How a task ends: its result, and its cancel."""

from __future__ import annotations

from litestar import Response

from agent_sandbox import Client
from gateway.adapters.http.views import view_of
from gateway.adapters.http.waiting import wait_result
from gateway.adapters.measuring import Meter
from shared.errors import NotFound
from shared.messages import CancelAnswer, TaskResult
from shared.rest import TaskView


async def result_of(
    client: Client,
    meter: Meter,
    names: tuple[str, str],
    wait_s: float,
    accepted_ms: int | None,
) -> Response[TaskResult | TaskView]:
    """Return a task's result, or where it stands if there is none within `wait_s` seconds.

    Args:
        client: of its tenant.
        meter: see `view_of`.
        names: its session and its own id.
        wait_s: longest wait.
        accepted_ms: see `view_of`.

    Raises:
        NotFound: nothing is known of it.
        ServiceError: others as `view_of`.
    """
    stored = await wait_result(client, *names, wait_s)
    if stored is not None:
        return Response(stored)
    view = await view_of(client, meter, names, accepted_ms)
    if view.result is not None:
        return Response(view.result)
    return Response(view, status_code=202)


async def cancelled(client: Client, session: str, task: str, pool: str | None) -> CancelAnswer:
    """Cancel a task.

    Raises:
        NotFound: nobody knows it.
        ServiceError: others as `Client.cancel`.
    """
    answer = await client.cancel(task, session_id=session, pool=pool)
    if answer.outcome == "unknown":
        raise NotFound(f"task {task} of session {session} is not known")
    return answer
