"""Snapshots of a session's workspace: list, name, compare, fork; and the tasks that give it up, wake it and go back."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import Response, delete, get, post, put
from litestar.params import PathParameter, QueryParameter

from agent_sandbox import Client
from agent_sandbox.orders import make_task_id
from gateway.adapters.http.answers import naming
from gateway.adapters.http.asked import KeyHeader, LimitQuery, SessionPath, WaitQuery
from gateway.adapters.http.deps import ItsClient
from gateway.adapters.http.described import says
from gateway.adapters.http.keys import task_id_of
from gateway.adapters.http.known import open_session
from gateway.adapters.http.views import accepted, ended
from shared import limits
from shared.errors import OutcomeUnknown
from shared.rest import TaskView
from shared.snapshots import (
    DiffAnswer,
    DiffAsk,
    ForkAnswer,
    ForkAsk,
    NameAsk,
    SnapshotAnswer,
    SnapshotsAnswer,
    SnapshotsAsk,
)
from shared.task import Hibernate, Resume, Rollback, Task

WANTED = f"^[A-Za-z0-9][A-Za-z0-9._-]{{0,{limits.SNAPSHOT_NAME_LENGTH_MAX - 1}}}$"
_MEANT = "A snapshot: its name, its id, or the beginning of its id."

SnapshotPath = Annotated[str, PathParameter(pattern=WANTED, description=_MEANT)]
SnapshotQuery = Annotated[str, QueryParameter(name="snapshot", pattern=WANTED, description=_MEANT)]
ForkQuery = Annotated[
    str | None,
    QueryParameter(
        name="snapshot",
        pattern=WANTED,
        description=f"{_MEANT} Absent: what its last completed task left behind.",
    ),
]
BeforeQuery = Annotated[
    str, QueryParameter(name="before", pattern=WANTED, description=f"The older one. {_MEANT}")
]
AfterQuery = Annotated[
    str | None,
    QueryParameter(
        name="after",
        pattern=WANTED,
        description="The newer one, likewise; absent: what its last completed task left behind.",
    ),
]
NameQuery = Annotated[
    str, QueryParameter(name="name", pattern=WANTED, description="By which it is kept.")
]
SkipQuery = Annotated[
    int,
    QueryParameter(
        name="skip",
        ge=0,
        le=limits.DIFF_CHANGES_MAX,
        description="`next` of the page before.",
    ),
]


@get("/v1/sessions/{session_id:str}/snapshots", opt=says({200: SnapshotsAnswer}, 404))
async def list_snapshots(client: ItsClient, session_id: SessionPath) -> SnapshotsAnswer:
    """List the snapshots that a session keeps, the newest first."""
    return await client.ask("snapshots", SnapshotsAsk(session=session_id), SnapshotsAnswer)


@put(
    "/v1/sessions/{session_id:str}/snapshots/{snapshot:str}/name",
    opt=says({200: SnapshotAnswer}, 404, 409),
)
async def name_snapshot(
    client: ItsClient, session_id: SessionPath, snapshot: SnapshotPath, name: NameQuery
) -> SnapshotAnswer:
    """Keep a snapshot by a name, until the name is taken away."""
    ask = NameAsk(session=session_id, snapshot=snapshot, name=name)
    return await client.ask("snapshot_name", ask, SnapshotAnswer)


@delete(
    "/v1/sessions/{session_id:str}/snapshots/{snapshot:str}/name",
    status_code=200,
    opt=says({200: SnapshotAnswer}, 404),
)
async def unname_snapshot(
    client: ItsClient, session_id: SessionPath, snapshot: SnapshotPath
) -> SnapshotAnswer:
    """Take a snapshot's name away: it stays as long as others do."""
    ask = NameAsk(session=session_id, snapshot=snapshot)
    return await client.ask("snapshot_name", ask, SnapshotAnswer)


@get("/v1/sessions/{session_id:str}/diff", opt=says({200: DiffAnswer}, 404))
async def diff_snapshots(
    client: ItsClient,
    session_id: SessionPath,
    before: BeforeQuery,
    after: AfterQuery = None,
    limit: LimitQuery = 100,
    skip: SkipQuery = 0,
) -> DiffAnswer:
    """Say how two snapshots differ: paths that were added, changed or removed, with their sizes, a page at a time."""
    ask = DiffAsk(session=session_id, before=before, after=after, limit=limit, skip=skip)
    return await client.ask("diff", ask, DiffAnswer)


@post("/v1/sessions/{session_id:str}/fork", opt=says({201: ForkAnswer}, 404, 409))
async def fork_session(
    client: ItsClient,
    session_id: SessionPath,
    snapshot: ForkQuery = None,
    key: KeyHeader = None,
) -> Response[ForkAnswer]:
    """Make a session that begins with a snapshot of this one. The same key again is the same session."""
    name = task_id_of(key, client.options.tenant) or make_task_id()
    with naming(name):
        ask = ForkAsk(session=session_id, fork=name, snapshot=snapshot)
        made = await client.ask("fork", ask, ForkAnswer)
    return Response(made, status_code=201, headers={"location": f"/v1/sessions/{made.session}"})


@post(
    "/v1/sessions/{session_id:str}/hibernate",
    status_code=200,
    opt=says({200: TaskView, 202: TaskView}, 404, 409),
)
async def hibernate_session(
    client: ItsClient, session_id: SessionPath, wait_s: WaitQuery = 30, key: KeyHeader = None
) -> Response[TaskView]:
    """Save a session's workspace and give its pod back, behind the tasks that it still has; its next task wakes it."""
    return await _do(client, session_id, Hibernate(), (key, wait_s))


@post(
    "/v1/sessions/{session_id:str}/resume",
    status_code=200,
    opt=says({200: TaskView, 202: TaskView}, 404, 409),
)
async def resume_session(
    client: ItsClient, session_id: SessionPath, wait_s: WaitQuery = 30, key: KeyHeader = None
) -> Response[TaskView]:
    """Wake a session: with the result a worker has it, with its files. It runs nothing."""
    return await _do(client, session_id, Resume(), (key, wait_s))


@post(
    "/v1/sessions/{session_id:str}/rollback",
    status_code=200,
    opt=says({200: TaskView, 202: TaskView}, 404, 409),
)
async def rollback_session(
    client: ItsClient,
    session_id: SessionPath,
    snapshot: SnapshotQuery,
    wait_s: WaitQuery = 30,
    key: KeyHeader = None,
) -> Response[TaskView]:
    """Go back to a snapshot, behind the tasks that the session still has; its next task begins with those files."""
    return await _do(client, session_id, Rollback(snapshot=snapshot), (key, wait_s))


async def _do(
    client: Client, session: str, task: Task, how: tuple[str | None, float]
) -> Response[TaskView]:
    """Publish a task and wait for its result: 200 with it, 202 where it stands behind others.

    Raises:
        NotFound: there is no such session.
        ProblemError: it has ended, or the task was refused.
    """
    key, wait_s = how
    await open_session(client, session)
    task_id = task_id_of(key, client.options.tenant, session) or make_task_id()
    with naming(task_id):
        published = await client.publish_next(session, task, {"task_id": task_id})
    async with published as running:
        try:
            result = await running.result(wait_s=wait_s)
        except OutcomeUnknown:
            return accepted(running)
    return Response(ended(result.raw))


ROUTES: list[Any] = [
    list_snapshots,
    name_snapshot,
    unname_snapshot,
    diff_snapshots,
    fork_session,
    hibernate_session,
    resume_session,
    rollback_session,
]
