"""Creating: the first task of a session is published, and the caller told what is known of it."""

from __future__ import annotations

import msgspec
from litestar import Response

from agent_sandbox import Client
from gateway.adapters.http.answers import ProblemError
from gateway.adapters.http.keys import task_id_of
from gateway.adapters.http.views import accepted
from gateway.core.problems import of_error
from shared.errors import ServiceError
from shared.rest import TaskView
from shared.task import Task


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What a create asks for beside its task."""

    pool: str
    klass: str
    key: str | None
    """Idempotency key."""


async def create(client: Client, task: Task, wish: Wish) -> Response[TaskView]:
    """Publish a session's first task.

    Raises:
        ProblemError: it was refused, or may have been accepted; names the task.
    """
    task_id = task_id_of(wish.key, client.options.tenant) or client.transport.draw_id()
    options = {"pool": wish.pool, "klass": wish.klass, "task_id": task_id}
    try:
        async with await client.publish(task, options) as running:
            return accepted(running, wish.pool)
    except ServiceError as exc:
        raise ProblemError(of_error(exc, task=task_id)) from exc
