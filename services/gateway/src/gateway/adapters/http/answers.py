"""Answers that are problems, in the one form that they all have."""

from __future__ import annotations

import msgspec

from gateway.core.problems import RETRY_AFTER_S
from shared.rest import Problem

PROBLEM_TYPE = "application/problem+json"
_encoder = msgspec.json.Encoder()

Headers = list[tuple[bytes, bytes]]


class ProblemError(Exception):
    """A request that is answered with a problem; for what no error of `shared.errors` says."""

    def __init__(self, problem: Problem, headers: dict[str, str] | None = None) -> None:
        """Keep the answer."""
        super().__init__(problem.detail)
        self.problem = problem
        self.headers = headers or {}


def encode(body: object) -> bytes:
    """Return a body as JSON."""
    return _encoder.encode(body)


def problem_headers(problem: Problem, more: dict[str, str] | None = None) -> dict[str, str]:
    """Return the headers of a problem's answer beside its type."""
    headers = dict(more or {})
    if problem.status == 401:
        headers.setdefault("www-authenticate", 'Bearer realm="agent-sandbox"')
    if (pause_s := RETRY_AFTER_S.get(problem.status)) is not None:
        headers.setdefault("retry-after", str(pause_s))
    return headers
