"""`…/output` and `…/stream`: a task's events as server-sent events and over a WebSocket."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from typing import Annotated, Any

from litestar import Response, WebSocket, get, websocket
from litestar.params import HeaderParameter, QueryParameter

from agent_sandbox import Client
from gateway.adapters.http.answers import ProblemError
from gateway.adapters.http.asked import AcceptedQuery, SessionPath, TaskPath
from gateway.adapters.http.deps import ItsClient, ItsMeter, ItsStreams
from gateway.adapters.http.described import says
from gateway.adapters.http.desks import Desk
from gateway.adapters.http.guard import ADMITTED, LENT, refuse
from gateway.adapters.http.sending import EVENT_STREAM, EventStream
from gateway.adapters.http.streams import Asked, End, Reader, Streams, is_behind_all, open_events
from gateway.adapters.http.told import WHY, as_text
from gateway.adapters.measuring import Meter
from gateway.core.problems import of_error
from shared.errors import ServiceError
from shared.rest import StreamEvent

PROTOCOL = "agent-sandbox"
"""Subprotocol that a browser names beside its token: one of those that it names must be chosen."""
CODES: dict[End, int] = {
    "done": 1000,
    "gone": 1008,
    "stalled": 1008,
    "leaving": 1012,
    "withdrawn": 1008,
    "broken": 1011,
}
"""Codes of WebSockets by how the stream ended."""
CLOSE_S = 2.0
REASON_BYTES_MAX = 120
"""Of a reason, of which the protocol takes 123."""

AfterQuery = Annotated[
    str | None,
    QueryParameter(
        name="after",
        min_length=1,
        max_length=256,
        description="`id` of the last event that was read: go on behind it.",
    ),
]
LastEventId = Annotated[
    str | None,
    HeaderParameter(
        name="Last-Event-ID",
        max_length=256,
        description="The same; an `EventSource` sends it by itself.",
    ),
]
AnySocket = WebSocket[Any, Any, Any]


async def _open(client: Client, meter: Meter, streams: Streams, asked: Asked) -> Response[Any]:
    if is_behind_all(asked):
        return Response(None, status_code=204)
    async with AsyncExitStack() as stack:
        stack.enter_context(streams.place(client.options.tenant))
        events = await stack.enter_async_context(open_events(client, meter, asked))
        return EventStream(streams, events, stack.pop_all())


@get(
    "/v1/sessions/{session_id:str}/tasks/{task_id:str}/output",
    opt=says({200: EVENT_STREAM, 204: None}, 404),
)
async def show_output(
    client: ItsClient,
    meter: ItsMeter,
    streams: ItsStreams,
    session_id: SessionPath,
    task_id: TaskPath,
    after: AfterQuery = None,
    last_id: LastEventId = None,
    accepted_ms: AcceptedQuery = None,
) -> Response[Any]:
    """Stream a task's events, from the first or behind one; the last is its result."""
    asked = Asked(session=session_id, task=task_id, after=last_id or after, accepted_ms=accepted_ms)
    return await _open(client, meter, streams, asked)


@get("/v1/tasks/{task_id:str}/output", opt=says({200: EVENT_STREAM, 204: None}, 404))
async def show_first_output(
    client: ItsClient,
    meter: ItsMeter,
    streams: ItsStreams,
    task_id: TaskPath,
    after: AfterQuery = None,
    last_id: LastEventId = None,
    accepted_ms: AcceptedQuery = None,
) -> Response[Any]:
    """Stream a first task's events, as those of any task."""
    asked = Asked(session=task_id, task=task_id, after=last_id or after, accepted_ms=accepted_ms)
    return await _open(client, meter, streams, asked)


async def _serve(socket: AnySocket, meter: Meter, streams: Streams, asked: Asked) -> None:
    asked_by: Any = socket.scope
    async with AsyncExitStack() as stack:
        try:
            client = await asked_by["state"][LENT].open()
            stack.enter_context(streams.place(client.options.tenant))
            all_told = None
            if not is_behind_all(asked):
                all_told = await stack.enter_async_context(open_events(client, meter, asked))
        except ProblemError as exc:
            await refuse(asked_by, socket.send, exc.problem, exc.headers)
            return
        except ServiceError as exc:
            await refuse(asked_by, socket.send, of_error(exc))
            return
        offered = asked_by.get("subprotocols") or []
        await socket.accept(subprotocols=PROTOCOL if PROTOCOL in offered else None)
        if all_told is None:
            await _close(socket, "done", "")
            return
        desk = Desk(client, asked.session, asked.task)

        def write(event: StreamEvent) -> bytes:
            desk.hear(event)
            return as_text(event)

        reader = Reader(
            write=write,
            send=lambda pieces: _say(socket, pieces),
            gone=desk.attend(socket),
            withdrawn=asked_by["state"][ADMITTED].withdrawn,
        )
        end = await streams.pump(all_told, reader)
        await _close(socket, end, desk.refused or WHY[end])


async def _say(socket: AnySocket, pieces: list[bytes]) -> None:
    for piece in pieces:  # none: pings are the server's business
        await socket.send_text(piece.decode())


async def _close(socket: AnySocket, end: End, why: str) -> None:
    """Say good-bye, if anybody is there."""
    reason = why.encode()[:REASON_BYTES_MAX].decode(errors="ignore")
    with suppress(RuntimeError, OSError):
        async with asyncio.timeout(CLOSE_S):
            await socket.close(CODES[end], reason)


@websocket("/v1/sessions/{session_id:str}/tasks/{task_id:str}/stream")
async def stream_output(
    socket: AnySocket,
    meter: ItsMeter,
    streams: ItsStreams,
    session_id: SessionPath,
    task_id: TaskPath,
    after: AfterQuery = None,
    accepted_ms: AcceptedQuery = None,
) -> None:
    """Stream a task's events, one a message; the last is its result, then it is closed.

    Where the task has a terminal, what the reader sends is typed: see `desks.TerminalInput`.
    """
    asked = Asked(session=session_id, task=task_id, after=after, accepted_ms=accepted_ms)
    await _serve(socket, meter, streams, asked)


@websocket("/v1/tasks/{task_id:str}/stream")
async def stream_first_output(
    socket: AnySocket,
    meter: ItsMeter,
    streams: ItsStreams,
    task_id: TaskPath,
    after: AfterQuery = None,
    accepted_ms: AcceptedQuery = None,
) -> None:
    """Stream a first task's events, as those of any task."""
    asked = Asked(session=task_id, task=task_id, after=after, accepted_ms=accepted_ms)
    await _serve(socket, meter, streams, asked)


ROUTES = [show_output, show_first_output, stream_output, stream_first_output]
