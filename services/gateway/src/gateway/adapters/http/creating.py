"""Creating: the first task of a session is published, and its caller told how soon its code ran."""

from __future__ import annotations

import msgspec
from litestar import Response

from agent_sandbox import Client, RunningTask
from gateway.adapters.http.answers import naming
from gateway.adapters.http.keys import task_id_of
from gateway.adapters.http.streams import LIVE_BYTES_MAX
from gateway.adapters.http.views import accepted, begun, ended
from gateway.adapters.measuring import Meter
from shared.rest import TaskView
from shared.task import Task


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What a create asks for beside its task."""

    pool: str
    klass: str
    key: str | None
    """Idempotency key."""
    wait_s: float
    """Longest wait for the start, seconds."""


async def publish_first(client: Client, task: Task, wish: Wish) -> RunningTask:
    """Publish a session's first task.

    Raises:
        ProblemError: it was refused, or may have been accepted; names the task.
    """
    task_id = task_id_of(wish.key, client.options.tenant) or client.transport.draw_id()
    options = {
        "pool": wish.pool,
        "klass": wish.klass,
        "task_id": task_id,
        "live_bytes_max": LIVE_BYTES_MAX,
    }
    with naming(task_id):
        return await client.publish(task, options)


async def create(client: Client, meter: Meter, task: Task, wish: Wish) -> Response[TaskView]:
    """Publish a session's first task and wait until its code runs, or it has ended without.

    Returns:
        201 with what was measured; 202 where it has not started in time: the view at the link has it later.

    Raises:
        ProblemError: as `publish_first`.
    """
    running = await publish_first(client, task, wish)
    try:
        if not await meter.started(running, wish.wait_s):
            return accepted(running, wish.pool)
        names = (running.session_id, running.task_id)
        tti = await meter.tti_of(client, names, running.stored)
        if running.stored is not None:
            view = ended(running.stored, tti)
        else:
            view = begun(names, wish.pool, tti)
        return Response(view, status_code=201, headers={"location": view.links["self"]})
    finally:
        await meter.leave(running)
