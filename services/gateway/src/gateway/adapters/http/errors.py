"""Exceptions of routes, answered as problems."""

from __future__ import annotations

from typing import Any

from litestar import Request, Response
from litestar.exceptions import HTTPException

from gateway.adapters.http.answers import PROBLEM_TYPE, ProblemError, problem_headers
from gateway.adapters.http.guard import REFUSAL
from gateway.core.problems import of_error, problem
from shared import limits, logs
from shared.errors import ServiceError
from shared.rest import Problem

log = logs.get(__name__)

AnyRequest = Request[Any, Any, Any]
CODES = {
    400: "invalid_message",
    404: "not_found",
    405: "method_not_allowed",
    406: "not_acceptable",
    413: "limit_exceeded",
    415: "unsupported_media_type",
}
OURS = "a fault of ours; it is in the gateway's log"
CALLED = {"among": "state", "klass": "class", "key": "idempotency-key"}
"""Parameters of routes that can not be named in Python as they are in a request."""


def answer(said: Problem, headers: dict[str, str] | None = None) -> Response[Problem]:
    """Return a problem as an answer."""
    return Response(
        said,
        status_code=said.status,
        media_type=PROBLEM_TYPE,
        headers=problem_headers(said, headers),
    )


def of_service(_request: AnyRequest, exc: ServiceError) -> Response[Problem]:
    """Answer an error of ours."""
    return answer(of_error(exc))


def of_problem(_request: AnyRequest, exc: ProblemError) -> Response[Problem]:
    """Answer what a route said itself."""
    return answer(exc.problem, exc.headers)


def of_http(request: AnyRequest, exc: HTTPException) -> Response[Problem]:
    """Answer an error of the framework: no such path or method, a parameter that can't be read."""
    status = exc.status_code
    if status >= 500:
        return of_bug(request, exc)
    detail = _too_large(request) if status == 413 else _detail(exc)
    code = CODES.get(status, "invalid_message")
    return answer(problem(status, code, detail), dict(exc.headers or {}))


def _detail(exc: HTTPException) -> str:
    if isinstance(exc.extra, list) and exc.extra:
        first: Any = exc.extra[0]
        key = first.get("key", "request")
        return f"{CALLED.get(key, key)}: {first.get('message', exc.detail)}"
    return exc.detail


async def note_socket(exc: Exception, scope: Any) -> None:
    """Keep the answer to a WebSocket's handshake that failed: the framework has none but a code (`guard.shaken`)."""
    if scope["type"] != "websocket":
        return
    match exc:
        case _ if isinstance(exc, HTTPException) and "path_template" not in scope:
            said = problem(404, "not_found", "path: there is no WebSocket at it")
        case HTTPException() if exc.status_code < 500:
            code = CODES.get(exc.status_code, "invalid_message")
            said = problem(exc.status_code, code, _detail(exc))
        case ServiceError():
            said = of_error(exc)
        case ProblemError():
            said = exc.problem
        case _:
            log.error("socket.failed", path=scope["path"], exc_info=exc)
            said = problem(500, "internal", OURS, definite=False)
    scope["state"][REFUSAL] = said


def _too_large(request: AnyRequest) -> str:
    most = request.route_handler.resolve_request_max_body_size()
    name = "OBJECT_BYTES_MAX" if most == limits.OBJECT_BYTES_MAX else "BODY_BYTES_MAX"
    return f"body: at most {most} bytes expected ({name})"


def of_bug(request: AnyRequest, exc: Exception) -> Response[Problem]:
    """Answer what nobody expected; the log says what it was."""
    log.error("request.failed", path=request.scope["path"], exc_info=exc)
    return answer(problem(500, "internal", OURS, definite=False))


HANDLERS: dict[int | type[Exception], Any] = {
    ServiceError: of_service,
    ProblemError: of_problem,
    HTTPException: of_http,
    Exception: of_bug,
}
