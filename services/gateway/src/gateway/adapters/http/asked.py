"""What is asked for, in the forms that several routes share."""

from __future__ import annotations

from typing import Annotated, Any

from litestar.params import HeaderParameter, PathParameter, QueryParameter

from gateway.adapters.http.answers import ProblemError
from gateway.core.problems import problem
from shared import limits
from shared.errors import InvalidMessage
from shared.ids import ID_LENGTH_MAX
from shared.task import Close, Open, Task, decode_task

ID_PATTERN = f"^[A-Za-z0-9][A-Za-z0-9_-]{{7,{ID_LENGTH_MAX - 1}}}$"
WAIT_S_MAX = 60.0
START_WAIT_S_MAX = 30.0
KEY_LENGTH_MAX = 255

SessionPath = Annotated[str, PathParameter(pattern=ID_PATTERN, description="Id of a session.")]
TaskPath = Annotated[str, PathParameter(pattern=ID_PATTERN, description="Id of a task.")]
_NAME_PATTERN = "^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$"
PoolQuery = Annotated[str, QueryParameter(name="pool", pattern=_NAME_PATTERN, description="Pool.")]
PoolFilter = Annotated[
    str | None, QueryParameter(name="pool", pattern=_NAME_PATTERN, description="Pool, if any.")
]
ClassQuery = Annotated[
    str,
    QueryParameter(
        name="class",
        pattern="^(interactive|batch)$",
        description="How urgent it is while it waits for a worker: `interactive` or `batch`.",
    ),
]
OwnClassQuery = Annotated[
    str | None,
    QueryParameter(
        name="class",
        pattern="^(interactive|batch)$",
        description="How urgent it is while it waits for a worker; absent: as its session.",
    ),
]
KeyHeader = Annotated[
    str | None,
    HeaderParameter(
        name="Idempotency-Key",
        min_length=1,
        max_length=KEY_LENGTH_MAX,
        description="The same key is the same task, which runs once. A UUID or ULID is the task's id itself.",
    ),
]
WaitQuery = Annotated[
    float,
    QueryParameter(
        name="wait_s", ge=0, le=WAIT_S_MAX, description="Longest wait for the result, seconds."
    ),
]
StartWaitQuery = Annotated[
    float,
    QueryParameter(
        name="wait_s",
        ge=0,
        le=START_WAIT_S_MAX,
        description="Longest wait for the start of user code, seconds.",
    ),
]
AcceptedQuery = Annotated[
    int | None,
    QueryParameter(
        name="accepted_ms",
        ge=0,
        le=2**53 - 1,
        description="When it was accepted, as the link from its creation says: a task that still waits for its first "
        "worker is known by nothing else.",
    ),
]
LimitQuery = Annotated[
    int, QueryParameter(name="limit", ge=1, le=limits.ASK_ITEMS_MAX, description="Longest page.")
]


def read_first(content_type: str | None, body: bytes) -> Task:
    """Return a session's first task; an empty body opens a session.

    Raises:
        InvalidMessage: it can't be read, or closes what is not there.
        ProblemError: it is not JSON.
    """
    if not body:
        return Open()
    task = read_task(content_type, body)
    if isinstance(task, Close):
        raise InvalidMessage("kind: `close` ends a session and can not begin one")
    return task


def read_task(content_type: str | None, body: bytes) -> Task:
    """Return the task in a request's body.

    Raises:
        InvalidMessage: it can't be read.
        ProblemError: it is not JSON.
    """
    kind = (content_type or "application/json").partition(";")[0].strip().lower()
    if kind != "application/json":
        said = f"content-type: application/json expected, got {kind[:80]!r}"
        raise ProblemError(problem(415, "unsupported_media_type", said))
    return decode_task(body)


def content_type_of(request: Any) -> str | None:
    """Return what a request says its body is."""
    said: str | None = request.headers.get("content-type")
    return said
