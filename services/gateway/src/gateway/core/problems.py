"""From an error to the answer that says it (RFC 9457): status, and which field or limit is to blame."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from shared import limits
from shared.errors import ErrorInfo, ServiceError
from shared.messages import TaskResult
from shared.rest import Problem

STATUS: Final = {
    "invalid_message": 400,
    "rejected": 409,
    "conflict": 409,
    "stale_epoch": 409,
    "already_done": 409,
    "damaged": 409,
    "not_found": 404,
    "forbidden": 403,
    "limit_exceeded": 429,
    "unavailable": 503,
    "draining": 503,
    "outcome_unknown": 504,
}
FILE_STATUS: Final = {
    "not_found": 404,
    "invalid_path": 400,
    "invalid_archive": 400,
    "outside_workspace": 403,
    "permission_denied": 403,
    "too_large": 413,
    "limit_exceeded": 413,
    "unavailable": 503,
}
"""Of what a file operation in a sandbox says; anything else is a conflict with what is there."""
TITLES: Final = {
    400: "The request can not be read",
    401: "Who are you?",
    403: "Not allowed",
    404: "There is no such thing",
    405: "Not this method",
    406: "Not in that form",
    408: "The request did not arrive in time",
    409: "Not in this state",
    413: "Too large",
    415: "Not in this form",
    421: "Not under this name",
    429: "Too much",
    431: "Headers too large",
    500: "A fault of ours",
    503: "Not now",
    504: "It may have happened",
}
RETRY_AFTER_S: Final = {429: 1, 503: 1}
"""Whole seconds after which it is worth asking again, by status."""
LIMITS: Final = {
    "body": "BODY_BYTES_MAX",
    "argv": "ARGV_ITEMS_MAX",
    "env": "ENV_ITEMS_MAX",
    "env[]": "ENV_VALUE_LENGTH_MAX",
    "files": "FILES_MAX",
    "files[].path": "PATH_LENGTH_MAX",
    "path": "PATH_LENGTH_MAX",
    "cwd": "PATH_LENGTH_MAX",
    "outputs": "OUTPUTS_MAX",
    "outputs[]": "PATH_LENGTH_MAX",
    "timeout_s": "TIMEOUT_S_MAX",
    "deadline_s": "DEADLINE_S_MAX",
    "offset": "FILE_BYTES_MAX",
}
"""Which limit a field has, where its message says a number and no name."""

_FIELD = re.compile(r"([a-z_-]+(?:\[[^\]]*\]|\.[a-z_]+)*): ")
_IN_BODY = re.compile(r" - at `(?:key in )?\$\.([^`]+)`")
_NAMED = re.compile(r"\(([A-Z][A-Z_]+)\)")
_IS_ABOVE = re.compile(r"at most|<=")


def problem(
    status: int, code: str, detail: str, *, definite: bool = True, task: str = ""
) -> Problem:
    """Return the body of an error's answer; field and limit are those that `detail` names."""
    field = field_of(detail)
    return Problem(
        type=f"urn:agent-sandbox:{code}",
        title=TITLES.get(status, "Error"),
        status=status,
        detail=detail,
        code=code,
        definite=definite,
        field=field,
        limit=limit_of(field, detail),
        task=task,
    )


def of_error(error: ServiceError | ErrorInfo, *, task: str = "") -> Problem:
    """Return the answer for an error of ours.

    Args:
        error: what was raised, or came in a message.
        task: id under which it may have happened, where there is one.
    """
    info = error.info() if isinstance(error, ServiceError) else error
    status = STATUS.get(info.code, 409 if info.definite else 504)
    return problem(status, info.code, info.message, definite=info.definite, task=task)


def of_file_result(result: TaskResult) -> Problem:
    """Return the answer for a file operation that did not end well."""
    error = result.error or ErrorInfo(
        code=result.reason or result.status, message=f"{result.status}: {result.reason}"
    )
    said = problem(
        FILE_STATUS.get(error.code, 409),
        error.code,
        error.message,
        definite=error.definite,
        task=result.task,
    )
    return msgspec.structs.replace(said, field="path" if result.reason == "file" else "")


def field_of(detail: str) -> str:
    """Return the field that a message names: `timeout_s` of "body: … - at `$.timeout_s`", `pool` of "pool: …"."""
    if inner := _IN_BODY.search(detail):
        return inner.group(1)
    named = _FIELD.match(detail)
    return named.group(1) if named else ""


def limit_of(field: str, detail: str) -> str:
    """Return the bound that a message says was passed, as `NAME=value`; empty: none that stands in `shared.limits`."""
    if named := _NAMED.search(detail):
        name = named.group(1)
    elif _IS_ABOVE.search(detail):
        name = LIMITS.get(re.sub(r"\[[^\]]*\]", "[]", field), "")
    else:
        return ""
    value = getattr(limits, name, None) if name else None
    return name if value is None else f"{name}={value}"
