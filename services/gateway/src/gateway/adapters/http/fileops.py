"""File operations as tasks of their session: they wait for their turn, not for ever."""

from __future__ import annotations

from typing import Annotated

from litestar.params import QueryParameter

from agent_sandbox import Client, RunningTask
from agent_sandbox.made import Made
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


async def do_file_task(
    client: Client, session: str, task: Task, wait_s: float, made: Made | None = None
) -> TaskResult:
    """Do a file operation in a session and return its result, which is `ok`.

    Args:
        client: of its tenant.
        session: which.
        task: the operation.
        wait_s: longest wait for its result, seconds.
        made: objects for it alone; they go with it, or stay where it may still be done.

    Raises:
        NotFound: there is no such session (yet).
        ProblemError: the session has ended or does not come to it, or the operation did not end well.
        ServiceError: others as `Client.publish_next`.
    """
    made = made or Made()
    async with client.objects.given_back(made):
        await open_session(client, session)
    task_id = make_task_id()
    with naming(task_id):
        async with client.objects.given_back(made):
            options = {"task_id": task_id, "made": made}
            published = await client.publish_next(session, task, options)
    async with published as running:
        try:
            result = (await running.result(wait_s=wait_s)).raw
        except OutcomeUnknown:
            result = await _taken_back(client, running, wait_s)
    if result.status != "ok":
        raise ProblemError(of_file_result(result))
    return result


async def _taken_back(client: Client, running: RunningTask, wait_s: float) -> TaskResult:
    """Cancel an operation that the session did not come to; return its result if it was done after all.

    Raises:
        ProblemError: it was surely not done (503), or may have been (504).
    """
    session, task = running.session_id, running.task_id
    try:
        answer = await running.cancel()
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
