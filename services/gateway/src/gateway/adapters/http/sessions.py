"""`/v1/sessions`: create, list, show, close."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from litestar import Response, delete, get, post
from litestar.params import QueryParameter, RawBody

from agent_sandbox.orders import make_task_id
from gateway.adapters.http.answers import naming
from gateway.adapters.http.asked import (
    ID_PATTERN,
    START_WAIT_S_MAX,
    ClassQuery,
    KeyHeader,
    LimitQuery,
    PoolFilter,
    PoolQuery,
    SessionPath,
    StartWaitQuery,
    WaitQuery,
    content_type_of,
    read_first,
)
from gateway.adapters.http.creating import Wish, create, publish_first
from gateway.adapters.http.deps import AnyRequest, ItsClient, ItsMeter, ItsStreams
from gateway.adapters.http.described import says
from gateway.adapters.http.following import follow, wants_stream
from gateway.adapters.http.known import known_session
from gateway.adapters.http.views import accepted, ended
from gateway.adapters.http.waiting import wait_result
from shared.errors import OutcomeUnknown
from shared.record import ENDED, State
from shared.rest import TaskView
from shared.task import Close
from shared.views import ListAsk, SessionAnswer, SessionsAnswer

StateQuery = Annotated[State | None, QueryParameter(name="state", description="Only those in it.")]
AfterQuery = Annotated[
    str | None,
    QueryParameter(name="after", pattern=ID_PATTERN, description="`next` of the page before."),
]


@post(
    "/v1/sessions",
    status_code=202,
    opt=says({201: TaskView, 202: TaskView}, 404, 409, 413, 415, body="first", streams=True),
)
async def create_session(
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
    """Create a session that stays, with its first task; an empty body opens it and runs nothing in its interpreter.

    201 when its code runs (or it has ended), with the time to that just measured; 202 where it has not started in time.
    With `Accept: text/event-stream` 200 at once, and the task's events.
    """
    task = msgspec.structs.replace(read_first(content_type_of(request), body), keep=True)
    wish = Wish(pool=pool, klass=klass, key=key, wait_s=wait_s)
    if wants_stream(request, streams, tenant := client.options.tenant):
        return await follow(streams, meter, tenant, lambda: publish_first(client, task, wish))
    return await create(client, meter, task, wish)


@get("/v1/sessions", opt=says({200: SessionsAnswer}))
async def list_sessions(
    client: ItsClient,
    pool: PoolFilter = None,
    among: StateQuery = None,
    limit: LimitQuery = 100,
    after: AfterQuery = None,
) -> SessionsAnswer:
    """List sessions by id, a page at a time. Of the ended ones only the newest are listed; all can be shown."""
    ask = ListAsk(limit=limit, after=after, state=among, pool=pool)
    return await client.ask("sessions", ask, SessionsAnswer)


@get("/v1/sessions/{session_id:str}", opt=says({200: SessionAnswer}, 404))
async def show_session(client: ItsClient, session_id: SessionPath) -> SessionAnswer:
    """Show a session: its record, and what its worker's heartbeat says."""
    return await known_session(client, session_id)


@delete(
    "/v1/sessions/{session_id:str}", status_code=200, opt=says({200: TaskView, 202: TaskView}, 404)
)
async def close_session(
    client: ItsClient, session_id: SessionPath, wait_s: WaitQuery = 30
) -> Response[TaskView]:
    """Close a session behind the tasks that it still has; one that has ended stays as it is.

    The answer is the closing task: with its result (200), or as it stands after the wait (202).
    """
    answer = await known_session(client, session_id)
    assert answer.record is not None, "else it is not known"
    if answer.record.state in ENDED:
        stored = await wait_result(client, session_id, session_id, 0)
        links = {"session": f"/v1/sessions/{session_id}"}
        view = TaskView(task=session_id, session=session_id, state="ended", links=links)
        return Response(view if stored is None else ended(stored))
    task_id = make_task_id()
    with naming(task_id):
        published = await client.publish_next(session_id, Close(), {"task_id": task_id})
    async with published as closing:
        try:
            result = await closing.result(wait_s=wait_s)
        except OutcomeUnknown:  # it waits behind others
            return accepted(closing, answer.record.pool)
    return Response(ended(result.raw))


ROUTES = [create_session, list_sessions, show_session, close_session]
