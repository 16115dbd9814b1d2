"""File operations as tasks of their session: they wait for their turn, not for ever."""

from __future__ import annotations

from typing import Annotated

from litestar.params import QueryParameter

from agent_sandbox import Client
from agent_sandbox.orders import make_task_id
from gateway.adapters.http.answers import ProblemError, naming
from gateway.adapters.http.asked import WAIT_S_MAX
from gateway.adapters.http.known import open_session
from gateway.core.problems import of_error, of_file_result, problem
from shared.errors import OutcomeUnknown, ServiceError
from shared.messages import TaskResult
from shared.task import Task

FileWait = Annotated[
    float,
    QueryParameter(
        name="wait_s",
        gt=0,
        le=WAIT_S_MAX,
        description="Longest wait for the session to come to it, seconds; then it is taken back.",
    ),
]


async def do_file_task(client: Client, session: str, task: Task, wait_s: float) -> TaskResult:
    """Do a file operation in a session and return its result, which is `ok`.

    Raises:
        NotFound: there is no such session (yet).
        ProblemError: the session has ended or does not come to it, or the operation did not end well.
        ServiceError: others as `Client.publish_next`.
    """
    await open_session(client, session)
    task_id = make_task_id()
    with naming(task_id):
        published = await client.publish_next(session, task, {"task_id": task_id})
    async with published as running:
        try:
            result = (await running.result(wait_s=wait_s)).raw
        except OutcomeUnknown:
            result = await _taken_back(client, session, running.task_id, wait_s)
    if result.status != "ok":
        raise ProblemError(of_file_result(result))
    return result


async def _taken_back(client: Client, session: str, task: str, wait_s: float) -> TaskResult:
    """Cancel an operation that the session did not come to; return its result if it was done after all.

    Raises:
        ProblemError: it was surely not done (503), or may have been (504).
    """
    try:
        answer = await client.cancel(task, session_id=session)
        stored = await client.transport.read_result(session, task, timeout_s=1.0)
    except ServiceError as exc:
        raise ProblemError(of_error(OutcomeUnknown(str(exc)), task=task)) from exc
    if stored is not None and stored.status != "cancelled":
        return stored
    if answer.outcome == "cancelled":
        said = f"session {session} did not come to it within {wait_s:g} s: it is busy"
        raise ProblemError(problem(503, "unavailable", said, task=task))
    raise ProblemError(
        of_error(OutcomeUnknown(f"no result of task {task} within {wait_s:g} s"), task=task)
    )
