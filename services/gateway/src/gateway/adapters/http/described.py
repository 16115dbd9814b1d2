"""What the OpenAPI document says of a route beside its parameters: the answers that it gives, and what its body is."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Body = Literal["first", "task", "bytes"]
KEY = "described"


class Described(msgspec.Struct, frozen=True, kw_only=True):
    """Said by a route of itself."""

    answers: dict[int, Any]
    """Status -> type of the JSON body, a media type for anything else, `dict` for any JSON, None for nothing."""
    problems: tuple[int, ...] = ()
    """Statuses of problems beside those that any request can meet."""
    streams: bool = False
    """The task's events are another answer, where they are asked for."""
    body: Body | None = None
    """`first`: a session's first task, or nothing; `task`: a task; `bytes`: a file's content."""


def says(
    answers: dict[int, Any], *problems: int, body: Body | None = None, streams: bool = False
) -> dict[str, Any]:
    """Return the `opt` of a route that describes itself so."""
    return {KEY: Described(answers=answers, problems=problems, body=body, streams=streams)}
