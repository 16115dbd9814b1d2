"""`/v1/objects`: chunks of objects, for clients whose tasks' files are too large for a request.

Chunk by chunk, so that any gateway may die between two of them: an object is complete by its reference alone, which
whoever stores it makes (`ObjectRef`).
"""

from __future__ import annotations

from typing import Annotated

from litestar import Response, delete, get, put
from litestar.params import PathParameter, RawBody

from gateway.adapters.http.answers import ProblemError
from gateway.adapters.http.deps import ItsClient
from gateway.adapters.http.described import says
from gateway.core.problems import problem
from shared import limits
from shared.errors import NotFound

BYTES = "application/octet-stream"
STORE_S = 10.0
READ_S = 4.0

ObjectPath = Annotated[
    str,
    PathParameter(
        pattern="^[A-Za-z0-9][A-Za-z0-9_-]{7,63}$",
        description="Id of an object, made by whoever stores it and never used twice.",
    ),
]
NumberPath = Annotated[
    int, PathParameter(ge=0, lt=limits.OBJECT_CHUNKS_MAX, description="Which chunk, from 0.")
]


@put(
    "/v1/objects/{object_id:str}/{number:int}",
    status_code=204,
    request_max_body_size=limits.OBJECT_CHUNK_BYTES_MAX,
    opt=says({204: None}, 404, 413, body="bytes"),
)
async def store_chunk(
    client: ItsClient, object_id: ObjectPath, number: NumberPath, body: RawBody
) -> None:
    """Store a chunk of an object; to store it again does nothing."""
    if not body:
        raise ProblemError(problem(400, "invalid_message", "body: a chunk has at least 1 byte"))
    await client.transport.chunks.put(object_id, number, body, within_s=STORE_S)


@get("/v1/objects/{object_id:str}/{number:int}", media_type=BYTES, opt=says({200: BYTES}, 404))
async def read_chunk(
    client: ItsClient, object_id: ObjectPath, number: NumberPath
) -> Response[bytes]:
    """Return a chunk of an object."""
    data = await client.transport.chunks.get(object_id, number, within_s=READ_S)
    if data is None:
        raise NotFound(f"object {object_id}: chunk {number} is not there (yet, or any more)")
    return Response(data, media_type=BYTES)


@delete("/v1/objects/{object_id:str}", status_code=204, opt=says({204: None}))
async def drop_object(client: ItsClient, object_id: ObjectPath) -> None:
    """Remove an object; what could not be removed now goes by its age, in 48 hours."""
    await client.objects.drop(object_id)


ROUTES = [store_chunk, read_chunk, drop_object]
