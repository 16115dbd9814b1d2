"""What is typed into a task's terminal: a request at a time, or over the WebSocket that shows it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Annotated, Any

import msgspec
from litestar import WebSocket, post
from litestar.params import QueryParameter, RawBody
from msgspec import Meta

from agent_sandbox import Client
from agent_sandbox.keys import Keyboard, Words
from agent_sandbox.results import error_of
from gateway.adapters.http.asked import SessionPath, TaskPath
from gateway.adapters.http.deps import ItsClient
from gateway.adapters.http.described import says
from gateway.adapters.http.known import open_session
from shared import limits
from shared.errors import InvalidMessage, NotFound, OutcomeUnknown, ServiceError, Unavailable
from shared.terminals import TerminalAnswer
from shared.views import SessionAnswer, ShowAsk

STUCK_S = 60.0
"""A program that reads nothing for so long ends the connection that types: who looks may come back."""
READ_RESULT_S = 1.0
Side = Annotated[int, Meta(ge=1, le=limits.TERMINAL_SIDE_MAX)]


class TerminalInput(msgspec.Struct, frozen=True, kw_only=True):
    """A text message to a WebSocket of a task in a terminal; a binary one is typed as it is."""

    text: str = ""
    """To be typed."""
    rows: Side | None = None
    cols: Side | None = None
    """Its new size, both together."""
    hang_up: bool = False


_inputs = msgspec.json.Decoder(TerminalInput)


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


async def obey(socket: WebSocket[Any, Any, Any], client: Client, session: str, task: str) -> None:
    """Type what comes over a WebSocket; return when the reader is gone, or says what can't be typed."""
    keyboard: Keyboard | None = None

    async def is_over() -> bool:
        return await has_ended(client, session, task)

    with suppress(ServiceError, TimeoutError, ValueError):
        while (message := await socket.receive())["type"] == "websocket.receive":
            async with asyncio.timeout(STUCK_S):
                if keyboard is None:
                    keyboard = Keyboard(client.transport.tell_terminal, session, task, is_over)
                    keyboard.worker = await owner_of(client, session, task)
                    await keyboard.say()
                await _do(keyboard, message)


async def _do(keyboard: Keyboard, message: Any) -> None:
    if message.get("bytes") is not None:
        await keyboard.type(message["bytes"])
        return
    said = _inputs.decode(message.get("text") or "")
    if said.rows is not None and said.cols is not None:
        await keyboard.say(size=(said.rows, said.cols))
    await keyboard.type(said.text.encode())
    if said.hang_up:
        await keyboard.say(hang_up=True)


ROUTES = [type_in]
