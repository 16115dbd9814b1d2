"""From a gateway's answer to the exception that a caller sees."""

from __future__ import annotations

import msgspec
import pytest

from agent_sandbox.over_http.problems import PROBLEM, TooManyRequests, error_of_answer
from shared.errors import (
    Forbidden,
    InvalidMessage,
    LimitExceeded,
    NotFound,
    OutcomeUnknown,
    Rejected,
    ServiceError,
    Unavailable,
)
from shared.rest import Problem

OURS = {"content-type": PROBLEM}


def said(status: int, code: str, *, definite: bool = True) -> bytes:
    """Return a problem's body."""
    return msgspec.json.encode(
        Problem(type="urn:x", title="t", status=status, detail="why", code=code, definite=definite)
    )


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "invalid_message", InvalidMessage),
        (401, "unauthorized", Forbidden),
        (403, "forbidden", Forbidden),
        (403, "foreign_origin", Rejected),
        (404, "not_found", NotFound),
        (429, "limit_exceeded", LimitExceeded),
        (429, "too_many_requests", TooManyRequests),
        (503, "unavailable", Unavailable),
        (408, "request_timeout", Unavailable),
    ],
)
def test_a_problem_is_the_exception_of_its_code(
    status: int, code: str, kind: type[ServiceError]
) -> None:
    """The same as without a gateway, with the same text."""
    error = error_of_answer(status, OURS, said(status, code))

    assert (type(error), str(error), error.definite) == (kind, "why", True)


@pytest.mark.parametrize("code", ["outcome_unknown", "internal", "not_found"])
def test_what_may_have_happened_is_said_so_whatever_the_code(code: str) -> None:
    """A caller who reads `definite` must not be told too much."""
    error = error_of_answer(504, OURS, said(504, code, definite=False))

    assert (type(error), error.definite) == (OutcomeUnknown, False)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, Rejected),
        (401, Forbidden),
        (404, NotFound),
        (407, Forbidden),
        (408, Unavailable),
        (413, LimitExceeded),
        (429, TooManyRequests),
        (500, OutcomeUnknown),
        (502, OutcomeUnknown),
        (503, OutcomeUnknown),
        (504, OutcomeUnknown),
    ],
)
def test_an_answer_that_is_not_a_gateways_is_judged_by_its_status(
    status: int, kind: type[ServiceError]
) -> None:
    """A proxy's page: short, and without a guess that what it failed at did not happen."""
    for headers, body in (
        ({"content-type": "text/html"}, b"<html>" + b"x" * 5000),
        (OURS, b'{"broken'),
        ({}, b""),
    ):
        error = error_of_answer(status, headers, body)
        assert type(error) is kind
        assert len(str(error)) < 300


@pytest.mark.parametrize(
    ("header", "after_s"), [("7", 7.0), ("0.5", 0.5), ("1e9", 60.0), ("-1", 1.0), ("soon", 1.0)]
)
def test_an_answer_says_when_to_ask_again(header: str, after_s: float) -> None:
    """In seconds, within reason."""
    error = error_of_answer(429, OURS | {"retry-after": header}, said(429, "too_many_requests"))

    assert isinstance(error, TooManyRequests)
    assert error.after_s == after_s
