"""`/v1/sessions/{session}/tree`: whole directories of a workspace as tar archives, streamed both ways."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Annotated, Any

from litestar import get, put
from litestar.params import QueryParameter
from litestar.response import Stream

from agent_sandbox.made import Made
from gateway.adapters.http.asked import WAIT_S_MAX, SessionPath
from gateway.adapters.http.deps import AnyRequest, ItsClient
from gateway.adapters.http.described import says
from gateway.adapters.http.fileops import do_file_task
from gateway.adapters.http.files import FolderQuery, stored
from gateway.adapters.http.known import open_session
from shared import limits
from shared.errors import ServiceError
from shared.task import Archive, Close, Extract

TAR = "application/x-tar"

TreeSnapshot = Annotated[
    str | None,
    QueryParameter(
        name="snapshot",
        description="As it was then: a snapshot's name, its id, or the beginning of its id.",
    ),
]
TreeWait = Annotated[
    float,
    QueryParameter(
        name="wait_s",
        gt=0,
        le=WAIT_S_MAX,
        description="Longest wait for the session to come to it and to be done, seconds; then it is taken back.",
    ),
]


@get(
    "/v1/sessions/{session_id:str}/tree",
    media_type=TAR,
    opt=says({200: TAR}, 404, 409, 413),
)
async def read_tree(
    client: ItsClient,
    request: AnyRequest,
    session_id: SessionPath,
    path: FolderQuery = ".",
    snapshot: TreeSnapshot = None,
    wait_s: TreeWait = 60,
) -> Stream:
    """Return a directory with all that is in it, or a file, as a tar archive; as it was at a snapshot by way of a fork."""
    if snapshot is None:
        result = await do_file_task(client, session_id, Archive(path=path), wait_s)
        return stored(request, client, result.outputs[0].object, TAR)
    fork = await client.session(session_id).fork(snapshot)
    try:
        result = await do_file_task(client, fork.id, Archive(path=path), wait_s)
    finally:
        with suppress(ServiceError):
            await asyncio.shield(client.publish_next(fork.id, Close(), {}))
    return stored(request, client, result.outputs[0].object, TAR)


@put(
    "/v1/sessions/{session_id:str}/tree",
    status_code=204,
    request_max_body_size=limits.OBJECT_BYTES_MAX,
    opt=says({204: None}, 404, 409, 413, body="bytes"),
)
async def write_tree(
    client: ItsClient,
    request: AnyRequest,
    session_id: SessionPath,
    path: FolderQuery = ".",
    wait_s: TreeWait = 60,
) -> None:
    """Write the members of a tar archive, the request's body, below a directory; what has their names is replaced."""
    await open_session(client, session_id)  # before all of the body is stored for nothing
    reference = await client.objects.put(aiter(request.stream()))
    task = Extract(path=path, object=reference)
    await do_file_task(client, session_id, task, wait_s, Made(reference.id))


ROUTES: list[Any] = [read_tree, write_tree]
