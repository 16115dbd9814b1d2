"""What the answers of a Kubernetes API server mean."""

from __future__ import annotations

import json

import pytest

from shared.errors import (
    Conflict,
    Forbidden,
    InvalidMessage,
    LimitExceeded,
    NotFound,
    OutcomeUnknown,
    Rejected,
    ServiceError,
    Unavailable,
)
from shared.kube.refusals import SAID_MAX, Outdated, refusal


@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [
        (400, "bad", InvalidMessage),
        (401, "Unauthorized", Unavailable),
        (403, 'pods "a" is forbidden: exceeded quota: q, requested: pods=1', LimitExceeded),
        (403, 'pods "a" is forbidden: violates PodSecurity "restricted:latest"', Forbidden),
        (404, "not found", NotFound),
        (405, "no such verb", Rejected),
        (409, "already exists", Conflict),
        (410, "too old resource version", Outdated),
        (422, "spec.containers: Required value", InvalidMessage),
        (429, "too many requests", Unavailable),
    ],
)
def test_what_the_server_refuses_surely_did_not_happen(
    status: int, text: str, kind: type[ServiceError]
) -> None:
    """Its own words are passed on."""
    body = json.dumps({"kind": "Status", "message": text}).encode()
    error = refusal(status, body, writes=True)
    assert type(error) is kind
    assert error.definite
    assert str(error).endswith(text)


@pytest.mark.parametrize("status", [500, 503, 504])
def test_an_error_of_the_server_itself_leaves_open_whether_a_write_was_done(status: int) -> None:
    """A read that failed changed nothing."""
    assert type(refusal(status, b"{}", writes=True)) is OutcomeUnknown
    assert type(refusal(status, b"{}", writes=False)) is Unavailable


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"message": 1}', b"\xff"])
def test_a_proxys_page_says_its_status(body: bytes) -> None:
    """Not every answer is the API server's own."""
    assert "502" in str(refusal(502, body, writes=True))


def test_a_servers_text_is_cut() -> None:
    """It goes into logs and statuses."""
    body = json.dumps({"message": "x" * 10_000}).encode()
    assert len(str(refusal(403, body, writes=True))) == SAID_MAX
