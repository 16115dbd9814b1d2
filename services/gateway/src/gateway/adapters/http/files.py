"""`/v1/sessions/{session}/files`: the workspace of one session, streamed both ways at the memory of a few chunks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Annotated, Any

from litestar import Response, delete, get, put
from litestar.params import PathParameter, QueryParameter
from litestar.response import Stream

from agent_sandbox import Client
from agent_sandbox.made import Made
from gateway.adapters.http.asked import SessionPath
from gateway.adapters.http.deps import AnyRequest, ItsClient
from gateway.adapters.http.described import says
from gateway.adapters.http.fileops import FileWait, do_file_task
from gateway.adapters.http.guard import ADMITTED, BEHIND
from shared import limits
from shared.errors import Forbidden, InvalidMessage
from shared.files import ObjectRef
from shared.rest import Listing
from shared.task import InputFile, ListFiles, ReadFile, RemoveFile, WriteFile

BYTES = "application/octet-stream"
INLINE_BYTES_MAX = 128 * 1024
"""What goes in the task's own message; more goes through the object store."""

FilePath = Annotated[
    str,
    PathParameter(
        min_length=1,
        max_length=limits.PATH_LENGTH_MAX + 1,
        description="File in the workspace; it may hold slashes.",
    ),
]
FolderQuery = Annotated[
    str,
    QueryParameter(
        name="path", min_length=1, max_length=limits.PATH_LENGTH_MAX, description="Directory."
    ),
]
ModeQuery = Annotated[
    str,
    QueryParameter(
        name="mode", pattern="^0?[0-7]{3}$", description="Permissions, octal, as in 0644."
    ),
]
RecursiveQuery = Annotated[
    bool, QueryParameter(name="recursive", description="A directory with what is in it.")
]


@get("/v1/sessions/{session_id:str}/files", opt=says({200: Listing}, 404, 409))
async def list_files(
    client: ItsClient, session_id: SessionPath, path: FolderQuery = ".", wait_s: FileWait = 30
) -> Listing:
    """List a directory of the workspace."""
    result = await do_file_task(client, session_id, ListFiles(path=path), wait_s)
    return Listing(path=path, entries=result.entries or (), truncated=result.truncated)


@get(
    "/v1/sessions/{session_id:str}/files/{path:path}",
    media_type=BYTES,
    opt=says({200: BYTES}, 404, 409, 413),
)
async def read_file(
    client: ItsClient,
    request: AnyRequest,
    session_id: SessionPath,
    path: FilePath,
    wait_s: FileWait = 30,
) -> Response[bytes] | Stream:
    """Return a file's content."""
    name = checked(path)
    first = await do_file_task(client, session_id, ReadFile(path=name), wait_s)
    data = first.data or b""
    if (first.size or 0) <= len(data):
        return Response(data, media_type=BYTES)
    # Larger than one answer: through the object store, where it is one state of the file.
    whole = await do_file_task(client, session_id, ReadFile(path=name, as_object=True), wait_s)
    return stored(request, client, whole.outputs[0].object, BYTES)


@put(
    "/v1/sessions/{session_id:str}/files/{path:path}",
    status_code=204,
    request_max_body_size=limits.OBJECT_BYTES_MAX,
    opt=says({204: None}, 404, 409, 413, body="bytes"),
)
async def write_file(
    client: ItsClient,
    request: AnyRequest,
    session_id: SessionPath,
    path: FilePath,
    mode: ModeQuery = "0644",
    wait_s: FileWait = 30,
) -> None:
    """Write a file: the request's body, of any size up to that of an object, replaces it."""
    name, bits = checked(path), int(mode, 8)
    body = aiter(request.stream())
    head = b""
    async for piece in body:
        head += piece
        if len(head) > INLINE_BYTES_MAX:
            break
    else:
        file = InputFile(path=name, data=head, mode=bits)
        await do_file_task(client, session_id, WriteFile(files=(file,)), wait_s)
        return
    reference = await client.objects.put(_joined(head, body))
    file = InputFile(path=name, object=reference, mode=bits)
    task = WriteFile(files=(file,))
    await do_file_task(client, session_id, task, wait_s, Made(reference.id))


@delete(
    "/v1/sessions/{session_id:str}/files/{path:path}",
    status_code=204,
    opt=says({204: None}, 404, 409),
)
async def remove_file(
    client: ItsClient,
    session_id: SessionPath,
    path: FilePath,
    recursive: RecursiveQuery = False,
    wait_s: FileWait = 30,
) -> None:
    """Remove a file, or a directory."""
    task = RemoveFile(path=checked(path), recursive=recursive)
    await do_file_task(client, session_id, task, wait_s)


def checked(path: str) -> str:
    """Return a path as a task has it: without the slash that parts it from what is before.

    Raises:
        InvalidMessage: empty, or too long.
    """
    name = path.removeprefix("/")
    if not 0 < len(name) <= limits.PATH_LENGTH_MAX:
        raise InvalidMessage(
            f"path: {len(name)} characters, 1 expected and at most {limits.PATH_LENGTH_MAX}"
        )
    return name


async def _joined(head: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield head
    async for piece in rest:
        yield piece


def stored(request: AnyRequest, client: Client, reference: ObjectRef, media_type: str) -> Stream:
    """Return the answer for which an object was made: it goes with the request, read or not."""
    state = request.scope["state"]
    state[BEHIND].push_async_callback(client.objects.discard, reference.id)
    content = _read_while(client, reference, state[ADMITTED].withdrawn)
    headers = {"content-length": str(reference.size_bytes), "etag": f'"{reference.sha256}"'}
    return Stream(content, media_type=media_type, headers=headers)


async def _read_while(
    client: Client, reference: ObjectRef, withdrawn: asyncio.Event
) -> AsyncIterator[bytes]:
    async with aclosing(client.objects.read(reference)) as pieces:
        async for piece in pieces:
            if withdrawn.is_set():
                raise Forbidden("the token was withdrawn")
            yield piece


ROUTES: list[Any] = [list_files, read_file, write_file, remove_file]
