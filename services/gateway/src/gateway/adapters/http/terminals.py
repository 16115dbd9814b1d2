"""What is typed into a task's terminal, a request at a time; over the WebSocket that shows it: see `desks`."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import post
from litestar.params import QueryParameter, RawBody

from agent_sandbox import Client
from agent_sandbox.keys import Words
from gateway.adapters.http.asked import SessionPath, TaskPath
from gateway.adapters.http.deps import ItsClient
from gateway.adapters.http.described import says
from gateway.adapters.http.known import open_session
from shared import limits
from shared.errors import InvalidMessage, NotFound, OutcomeUnknown, Unavailable, error_of
from shared.terminals import TerminalAnswer
from shared.views import SessionAnswer, ShowAsk

READ_RESULT_S = 1.0


def _number(name: str, description: str, most: int) -> Any:
    return QueryParameter(name=name, ge=1, le=most, description=description)


@post(
    "/v1/sessions/{session_id:str}/tasks/{task_id:str}/terminal",
    status_code=200,
    opt=says({200: TerminalAnswer}, 404, 409, 413, body="bytes"),
)
async def type_in(
    client: ItsClient,
    session_id: SessionPath,
    task_id: TaskPath,
    body: RawBody,
    worker: Annotated[
        str | None,
        QueryParameter(
            name="worker",
            pattern="^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$",
            description="Worker that runs it, as `started` says; absent: it is asked for.",
        ),
    ] = None,
    writer: Annotated[
        str,
        QueryParameter(
            name="writer",
            max_length=64,
            description="A name that the client draws for each time that it attaches.",
        ),
    ] = "",
    offset: Annotated[
        int,
        QueryParameter(
            name="offset", ge=0, le=10**15, description="Bytes that this writer has typed before."
        ),
    ] = 0,
    rows: Annotated[int | None, _number("rows", "Its new size.", limits.TERMINAL_SIDE_MAX)] = None,
    cols: Annotated[int | None, _number("cols", "Its new size.", limits.TERMINAL_SIDE_MAX)] = None,
    hang_up: Annotated[
        bool, QueryParameter(name="hang_up", description="SIGHUP, as when a window is closed.")
    ] = False,
) -> TerminalAnswer:
    """Type into the terminal of a task that runs; said again after no answer, it is typed once.

    The answer says how much the terminal has of this writer: `next` is where to go on. 503: nobody hears it there (now).
    """
    if (rows is None) != (cols is None):
        raise InvalidMessage("rows: expected together with cols")
    words = Words(
        session=session_id,
        task=task_id,
        worker=worker or await owner_of(client, session_id, task_id),
        writer=writer,
        offset=offset,
        data=body,
        size=None if rows is None or cols is None else (rows, cols),
        hang_up=hang_up,
    )
    try:
        answer = await client.transport.tell_terminal(words)
    except Unavailable as exc:
        if await has_ended(client, session_id, task_id):
            raise NotFound(f"task {task_id} has ended, and its terminal with it") from exc
        await open_session(client, session_id)  # else nobody will ever hear it there
        raise
    if answer.error is not None:
        raise error_of(answer.error)
    return answer


async def owner_of(client: Client, session: str, task: str) -> str:
    """Return the worker that runs a task.

    Raises:
        NotFound: none does.
        Unavailable: nobody can be asked now.
    """
    shown = await client.ask("session", ShowAsk(session=session), SessionAnswer)
    if shown.record is None or shown.record.owner is None or shown.task != task:
        raise NotFound(f"session {session} does not run task {task}")
    return shown.record.owner


async def has_ended(client: Client, session: str, task: str) -> bool:
    """Return whether a task surely has its result."""
    try:
        found = await client.transport.read_result(session, task, timeout_s=READ_RESULT_S)
    except (Unavailable, OutcomeUnknown):
        return False
    return found is not None


ROUTES = [type_in]
