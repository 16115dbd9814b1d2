"""`/v1/tasks`: one-shots, and the first task of any session by its own id."""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar import Response, get, post
from litestar.enums import MediaType
from litestar.params import Parameter

from agent_sandbox import Client
from gateway.adapters.http.deps import TaskPath
from gateway.adapters.http.keys import task_id_of
from gateway.adapters.http.views import created, links_of, view_of
from shared.rest import TaskView
from shared.task import decode_task

PoolQuery = Annotated[str, Parameter(query="pool", description="Pool that runs it.")]
ClassQuery = Annotated[str, Parameter(query="class", description="`interactive` or `batch`.")]
KeyHeader = Annotated[str | None, Parameter(header="Idempotency-Key")]


@post("/v1/tasks", status_code=202)
async def create_task(
    client: Client,
    body: bytes,
    pool: PoolQuery = "default",
    klass: ClassQuery = "interactive",
    key: KeyHeader = None,
) -> Response[TaskView]:
    """Run a one-shot: a task in a sandbox of its own, which goes with it."""
    task = msgspec.structs.replace(decode_task(body), keep=False)
    task_id = task_id_of(key, client.options.tenant)
    options = {"pool": pool, "klass": klass, "task_id": task_id}
    async with await client.publish(task, options) as running:
        return created(running, pool)


@get("/v1/tasks/{task_id:str}", media_type=MediaType.JSON)
async def show_task(client: Client, task_id: TaskPath) -> TaskView:
    """Show a session's first task, a one-shot's only one."""
    return await view_of(client, task_id, task_id, links_of(task_id, task_id))
