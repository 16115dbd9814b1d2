"""`/v1/tasks`: one-shots, and the first task of any session by its own id."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import RawBody

from gateway.adapters.http.asked import (
    START_WAIT_S_MAX,
    AcceptedQuery,
    ClassQuery,
    KeyHeader,
    PoolFilter,
    PoolQuery,
    StartWaitQuery,
    TaskPath,
    WaitQuery,
    content_type_of,
    read_first,
)
from gateway.adapters.http.creating import Wish, create, publish_first
from gateway.adapters.http.deps import AnyRequest, ItsClient, ItsMeter, ItsStreams
from gateway.adapters.http.described import says
from gateway.adapters.http.ending import cancelled, result_of
from gateway.adapters.http.following import follow, wants_stream
from gateway.adapters.http.views import view_of
from shared.messages import CancelAnswer, TaskResult
from shared.rest import TaskView


@post(
    "/v1/tasks",
    status_code=202,
    opt=says({201: TaskView, 202: TaskView}, 404, 409, 413, 415, body="first", streams=True),
)
async def create_task(
    client: ItsClient,
    meter: ItsMeter,
    streams: ItsStreams,
    request: AnyRequest,
    body: RawBody,
    pool: PoolQuery = "default",
    klass: ClassQuery = "interactive",
    key: KeyHeader = None,
    wait_s: StartWaitQuery = START_WAIT_S_MAX,
) -> Response[Any]:
    """Run a one-shot: a task in a sandbox of its own, which goes with it.

    201 when its code runs (or it has ended), with the time to that just measured; 202 where it has not started in time.
    With `Accept: text/event-stream` 200 at once, and the task's events.
    """
    task = msgspec.structs.replace(read_first(content_type_of(request), body), keep=False)
    wish = Wish(pool=pool, klass=klass, key=key, wait_s=wait_s)
    if wants_stream(request, streams, tenant := client.options.tenant):
        return await follow(streams, meter, tenant, lambda: publish_first(client, task, wish))
    return await create(client, meter, task, wish)


@get("/v1/tasks/{task_id:str}", opt=says({200: TaskView}, 404))
async def show_task(
    client: ItsClient, meter: ItsMeter, task_id: TaskPath, accepted_ms: AcceptedQuery = None
) -> TaskView:
    """Show a session's first task, a one-shot's only one."""
    return await view_of(client, meter, (task_id, task_id), accepted_ms)


@get("/v1/tasks/{task_id:str}/result", opt=says({200: TaskResult, 202: TaskView}, 404))
async def show_task_result(
    client: ItsClient,
    meter: ItsMeter,
    task_id: TaskPath,
    wait_s: WaitQuery = 0,
    accepted_ms: AcceptedQuery = None,
) -> Response[TaskResult | TaskView]:
    """Return a first task's result; where there is none within the wait, the task as it stands (202)."""
    return await result_of(client, meter, (task_id, task_id), wait_s, accepted_ms)


@post("/v1/tasks/{task_id:str}/cancel", status_code=200, opt=says({200: CancelAnswer}, 404))
async def cancel_first(
    client: ItsClient, task_id: TaskPath, pool: PoolFilter = None
) -> CancelAnswer:
    """Cancel a first task at whatever stage it is; with `pool`, also one that is not published yet."""
    return await cancelled(client, task_id, task_id, pool)


ROUTES = [create_task, show_task, show_task_result, cancel_first]
