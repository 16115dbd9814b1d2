"""`/v1/sessions/{session}/tasks`: the tasks of one session."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from litestar import Response, get, post
from litestar.params import QueryParameter, RawBody

from agent_sandbox import RunningTask
from agent_sandbox.orders import make_task_id
from gateway.adapters.http.answers import naming
from gateway.adapters.http.asked import (
    AcceptedQuery,
    KeyHeader,
    LimitQuery,
    OwnClassQuery,
    SessionPath,
    TaskPath,
    WaitQuery,
    content_type_of,
    read_task,
)
from gateway.adapters.http.deps import AnyRequest, ItsClient, ItsMeter, ItsStreams
from gateway.adapters.http.described import says
from gateway.adapters.http.ending import cancelled, result_of
from gateway.adapters.http.following import follow, wants_stream
from gateway.adapters.http.keys import task_id_of
from gateway.adapters.http.streams import LIVE_BYTES_MAX
from gateway.adapters.http.views import accepted, ended, view_of
from shared.errors import OutcomeUnknown
from shared.messages import CancelAnswer, TaskResult
from shared.rest import TaskView
from shared.views import TasksAnswer, TasksAsk

StateQuery = Annotated[
    Literal["waiting", "running", "ended"] | None,
    QueryParameter(name="state", description="Only those in it."),
]
AfterQuery = Annotated[
    str | None,
    QueryParameter(name="after", max_length=128, description="`next` of the page before."),
]


@get("/v1/sessions/{session_id:str}/tasks", opt=says({200: TasksAnswer}, 404))
async def list_tasks(
    client: ItsClient,
    session_id: SessionPath,
    among: StateQuery = None,
    limit: LimitQuery = 100,
    after: AfterQuery = None,
) -> TasksAnswer:
    """List a session's tasks in the order in which they were accepted, a page at a time."""
    ask = TasksAsk(session=session_id, limit=limit, after=after, state=among)
    return await client.ask("tasks", ask, TasksAnswer)


@post(
    "/v1/sessions/{session_id:str}/tasks",
    status_code=202,
    opt=says({200: TaskView, 202: TaskView}, 409, 413, 415, body="task", streams=True),
)
async def create_next(
    client: ItsClient,
    meter: ItsMeter,
    streams: ItsStreams,
    request: AnyRequest,
    session_id: SessionPath,
    body: RawBody,
    klass: OwnClassQuery = None,
    key: KeyHeader = None,
    wait_s: WaitQuery = 0,
) -> Response[Any]:
    """Give a session its next task; with `wait_s` and a result by then, the answer is 200 and has it.

    With `Accept: text/event-stream` it is 200 at once, and the task's events.

    A session that is not known keeps the task for its first one, a day at most; one that has ended rejects it.
    """
    task = read_task(content_type_of(request), body)
    task_id = task_id_of(key, client.options.tenant, session_id) or make_task_id()
    options = {"task_id": task_id, "klass": klass, "live_bytes_max": LIVE_BYTES_MAX}

    async def publish() -> RunningTask:
        with naming(task_id):
            return await client.publish_next(session_id, task, options)

    if wants_stream(request, streams, tenant := client.options.tenant):
        return await follow(streams, meter, tenant, publish)
    running = await publish()
    running.ignore_events()
    try:
        if wait_s:
            try:
                result = await running.result(wait_s=wait_s)
            except OutcomeUnknown:
                return accepted(running)
            meter.note(running)
            tti = await meter.tti_of(client, (session_id, task_id), result.raw)
            return Response(ended(result.raw, tti), status_code=200)
        return accepted(running)
    finally:
        await meter.leave(running)


@get("/v1/sessions/{session_id:str}/tasks/{task_id:str}", opt=says({200: TaskView}, 404))
async def show_next(
    client: ItsClient,
    meter: ItsMeter,
    session_id: SessionPath,
    task_id: TaskPath,
    accepted_ms: AcceptedQuery = None,
) -> TaskView:
    """Show a task of a session."""
    return await view_of(client, meter, (session_id, task_id), accepted_ms)


@get(
    "/v1/sessions/{session_id:str}/tasks/{task_id:str}/result",
    opt=says({200: TaskResult, 202: TaskView}, 404),
)
async def show_next_result(
    client: ItsClient,
    meter: ItsMeter,
    session_id: SessionPath,
    task_id: TaskPath,
    wait_s: WaitQuery = 0,
    accepted_ms: AcceptedQuery = None,
) -> Response[TaskResult | TaskView]:
    """Return a task's result; where there is none within the wait, the task as it stands (202)."""
    return await result_of(client, meter, (session_id, task_id), wait_s, accepted_ms)


@post(
    "/v1/sessions/{session_id:str}/tasks/{task_id:str}/cancel",
    status_code=200,
    opt=says({200: CancelAnswer}, 404),
)
async def cancel_next(
    client: ItsClient, session_id: SessionPath, task_id: TaskPath
) -> CancelAnswer:
    """Cancel a task of a session at whatever stage it is."""
    return await cancelled(client, session_id, task_id, None)


ROUTES = [list_tasks, create_next, show_next, show_next_result, cancel_next]
