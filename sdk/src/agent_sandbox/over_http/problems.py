"""From an answer that says no to the exception that says why."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from shared.errors import (
    ErrorInfo,
    Forbidden,
    LimitExceeded,
    NotFound,
    OutcomeUnknown,
    Rejected,
    ServiceError,
    Unavailable,
    error_of,
)
from shared.rest import Problem

PROBLEM = "application/problem+json"
TEXT_CHARS_MAX = 200
"""Characters of an answer that is not ours which are repeated in an error."""
AFTER_S_MAX = 60.0


class TooManyRequests(LimitExceeded):
    """Requests came too fast or too many at once: nothing happened, and it may be asked again in a moment."""

    code = "too_many_requests"
    after_s = 1.0
    """When to ask again: what the answer names, else a second."""


def error_of_answer(status: int, headers: Mapping[str, str], body: bytes) -> ServiceError:
    """Return the exception for an answer with an error's status.

    Where the body is not ours, as from a proxy, the status decides: of what a server or proxy failed at, nobody knows
    whether it happened. That holds for 503, too: many a proxy says it of a connection that broke behind it.
    """
    if headers.get("content-type", "").partition(";")[0].strip() == PROBLEM:
        try:
            problem = msgspec.json.decode(body, type=Problem)
        except (msgspec.DecodeError, msgspec.ValidationError):
            pass
        else:
            if problem.status == 401:
                return Forbidden(problem.detail)
            if problem.status == 408:  # it did not arrive: it may be sent again
                return Unavailable(problem.detail)
            error = error_of(
                ErrorInfo(code=problem.code, message=problem.detail, definite=problem.definite)
            )
            return _timed(error, headers)
    said = f"HTTP {status}: {body.decode(errors='replace').strip()[:TEXT_CHARS_MAX]}"
    match status:
        case 401 | 403 | 407:
            return Forbidden(said)
        case 404:
            return NotFound(said)
        case 413 | 431:
            return LimitExceeded(said)
        case 429:
            return _timed(TooManyRequests(said), headers)
        case 408:
            return Unavailable(said)
        case _ if status >= 500:
            return OutcomeUnknown(said)
        case _:
            return Rejected(said)


def _timed(error: ServiceError, headers: Mapping[str, str]) -> ServiceError:
    if isinstance(error, TooManyRequests):
        error.after_s = retry_after_s(headers) or error.after_s
    return error


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return how long an answer asks to wait; None: it does not, or not in seconds."""
    try:
        return min(AFTER_S_MAX, max(0.0, float(headers["retry-after"])))
    except (KeyError, ValueError):
        return None
