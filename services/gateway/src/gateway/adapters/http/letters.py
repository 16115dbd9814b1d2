"""`/v1/dead-letters`: tasks that could not be read, or killed their workers."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import Response, delete, get, post
from litestar.params import PathParameter, QueryParameter

from agent_sandbox.letters import ReplayOptions
from gateway.adapters.http.answers import naming
from gateway.adapters.http.asked import KeyHeader, LimitQuery, OwnClassQuery, PoolFilter
from gateway.adapters.http.deps import ItsClient
from gateway.adapters.http.described import says
from gateway.adapters.http.keys import task_id_of
from gateway.adapters.http.views import accepted
from shared.errors import NotFound
from shared.rest import TaskView
from shared.views import LetterAnswer, LettersAnswer

NumberPath = Annotated[
    int, PathParameter(ge=1, le=2**53 - 1, description="Number of a dead letter.")
]
BeforeQuery = Annotated[
    int | None,
    QueryParameter(name="before", ge=1, le=2**53 - 1, description="`next` of the page before."),
]
NewQuery = Annotated[
    bool, QueryParameter(name="new_session", description="Found a new session in any case.")
]


@get("/v1/dead-letters", opt=says({200: LettersAnswer}))
async def list_letters(
    client: ItsClient, limit: LimitQuery = 100, before: BeforeQuery = None
) -> LettersAnswer:
    """List dead letters, the newest first, a page at a time."""
    return await client.dead_letters.list(limit=limit, before=before)


@get("/v1/dead-letters/{number:int}", opt=says({200: LetterAnswer}, 404))
async def show_letter(client: ItsClient, number: NumberPath) -> LetterAnswer:
    """Show a dead letter with its body, as it was published."""
    return await client.dead_letters.show(number)


@post("/v1/dead-letters/{number:int}/replay", status_code=202, opt=says({202: TaskView}, 404, 409))
async def replay_letter(
    client: ItsClient,
    number: NumberPath,
    pool: PoolFilter = None,
    klass: OwnClassQuery = None,
    new_session: NewQuery = False,
    key: KeyHeader = None,
) -> Response[TaskView]:
    """Publish a dead letter's task again under a new id; the letter stays."""
    task_id = task_id_of(key, client.options.tenant) or client.transport.draw_id()
    given: dict[str, Any] = {
        "pool": pool,
        "klass": klass,
        "new_session": new_session or None,
        "task_id": task_id,
    }
    options: ReplayOptions = {name: value for name, value in given.items() if value is not None}  # type: ignore[assignment]  # by its names
    with naming(task_id):
        published = await client.dead_letters.replay(number, **options)
    async with published as running:
        return accepted(running, pool or "")


@delete("/v1/dead-letters/{number:int}", status_code=204, opt=says({204: None}, 404))
async def drop_letter(client: ItsClient, number: NumberPath) -> None:
    """Remove a dead letter for good."""
    if not await client.dead_letters.drop(number):
        raise NotFound(f"no dead letter {number} (any more)")


ROUTES = [list_letters, show_letter, replay_letter, drop_letter]
