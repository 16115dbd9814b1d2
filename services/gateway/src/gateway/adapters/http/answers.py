"""Answers that are problems, in the one form that they all have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from gateway.core.problems import RETRY_AFTER_S, of_error
from shared.errors import ServiceError
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


@contextmanager
def naming(task: str) -> Iterator[None]:
    """Let an error inside name the task that was to be published: it may have been, and is found under that id.

    Raises:
        ProblemError: in place of any error of ours.
    """
    try:
        yield
    except ServiceError as exc:
        raise ProblemError(of_error(exc, task=task)) from exc


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
