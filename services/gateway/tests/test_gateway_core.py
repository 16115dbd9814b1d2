"""Decisions of the gateway: no clock, no wire."""

from __future__ import annotations

import pytest

from gateway.adapters.http.keys import task_id_of
from gateway.core import bucket, origins
from gateway.core.pace import BYTES_PER_S_MIN, Pace
from gateway.core.problems import of_error, of_file_result, problem
from shared import errors
from shared.errors import ErrorInfo, InvalidMessage, OutcomeUnknown, ServiceError, Unavailable
from shared.messages import TaskResult


def test_a_bucket_gives_its_burst_and_then_its_rate() -> None:
    """And says how long the next one takes."""
    left = bucket.full(per_s=2, burst=3, now_s=100.0)
    assert [left.take(100.0) for _ in range(3)] == [0, 0, 0]
    assert left.take(100.0) == 0.5
    assert left.take(100.5) == 0
    assert left.take(100.5) == 0.5


def test_a_rest_fills_a_bucket_no_further_than_its_burst() -> None:
    """However long it was; a clock that steps back takes nothing away and gives nothing."""
    left = bucket.full(per_s=10, burst=2, now_s=0.0)
    assert [left.take(1e6) for _ in range(2)] == [0, 0]
    assert left.take(0.0) > 0


def test_a_body_may_pause_for_a_while_and_must_come_so_fast() -> None:
    """A slow line gets through; what only looks alive does not."""
    pace = Pace(pause_s_max=5, grace_s=8)
    assert pace.left_s() == 5
    for _ in range(7):
        pace.came(1, 1.0)
    assert 1 < pace.left_s() < 1.1, "a byte each second: the grace is nearly over"
    pace.came(100 * BYTES_PER_S_MIN, 0.0)
    assert pace.left_s() == 5


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("localhost", "localhost"),
        ("LocalHost:80", "localhost"),
        ("127.0.0.1:1", "127.0.0.1"),
        ("[::1]:80", "[::1]"),
        ("[::1]", "[::1]"),
        ("::1", ""),
        ("a:b", ""),
        ("", ""),
        ("localhost:80:80", ""),
        ("localhost.", "localhost."),
    ],
)
def test_a_hosts_name_is_told_from_its_port(host: str, name: str) -> None:
    """Anything odd is no name at all."""
    assert origins.host_name(host) == name


@pytest.mark.parametrize(
    ("origin", "may"),
    [
        (None, True),
        ("http://localhost:8080", True),
        ("https://localhost:8080", True),
        ("http://localhost", False),
        ("http://localhost:8080.evil.example", False),
        ("null", False),
        ("", False),
        ("https://console.example", True),
        ("https://console.example:1", False),
    ],
)
def test_only_own_and_named_pages_may_ask(origin: str | None, may: bool) -> None:
    """The whole origin counts: scheme, name and port."""
    assert origins.may_ask(origin, "localhost:8080", {"https://console.example"}) is may


def test_every_error_of_ours_has_a_status() -> None:
    """Rejected ones are the caller's, Unavailable comes with a time, an unknown outcome is no definite no."""
    kinds: list[type[ServiceError]] = [*ServiceError.__subclasses__()]
    for kind in kinds:
        kinds += kind.__subclasses__()
    for kind in kinds:
        if kind.__module__ == errors.__name__:
            said = of_error(kind("x"))
            assert said.status in range(400, 505)
            assert said.definite == kind.definite
            assert (said.status == 504) == (not kind.definite)
    assert of_error(Unavailable("x")).status == 503
    unknown = of_error(OutcomeUnknown("x"), task="some-task")
    assert (unknown.status, unknown.task) == (504, "some-task")


@pytest.mark.parametrize(
    ("detail", "field", "limit"),
    [
        (
            "body: Expected `float` <= 86400.0 - at `$.timeout_s`",
            "timeout_s",
            "TIMEOUT_S_MAX=86400",
        ),
        ("body: Expected `array` of length <= 64 - at `$.files`", "files", "FILES_MAX=64"),
        ("body: Expected `str` - at `$.files[3].path`", "files[3].path", ""),
        (
            "body: Expected `str` of length <= 1024 - at `$.files[3].path`",
            "files[3].path",
            "PATH_LENGTH_MAX=1024",
        ),
        ("body: 300000 bytes, at most 262144", "body", "BODY_BYTES_MAX=262144"),
        ("object: 9 bytes, at most 8 (OBJECT_BYTES_MAX)", "object", "OBJECT_BYTES_MAX=4294967296"),
        ("pool: 1 to 32 characters of a-z expected", "pool", ""),
        ("nothing in particular", "", ""),
    ],
)
def test_a_problem_names_field_and_limit(detail: str, field: str, limit: str) -> None:
    """As the message says them, in a form that a program can read."""
    said = problem(400, "invalid_message", detail)
    assert (said.field, said.limit) == (field, limit)


@pytest.mark.parametrize(
    ("code", "status"),
    [("not_found", 404), ("outside_workspace", 403), ("is_a_directory", 409), ("new", 409)],
)
def test_what_a_sandbox_says_of_a_file_has_its_status(code: str, status: int) -> None:
    """The path is to blame."""
    result = TaskResult(
        task="t" * 8,
        session="s" * 8,
        tenant="default",
        status="failed",
        reason="file",
        error=ErrorInfo(code=code, message="a: why"),
    )
    said = of_file_result(result)
    assert (said.status, said.code, said.field, said.task) == (status, code, "path", "t" * 8)


def test_a_key_is_one_id_for_its_tenant_and_session() -> None:
    """And another one for others: keys are made without knowing of each other."""
    ids = {
        task_id_of("key", "one"),
        task_id_of("key", "two"),
        task_id_of("key", "one", "session-1"),
        task_id_of("key", "one", "session-2"),
        task_id_of("other", "one"),
    }
    assert len(ids) == 5
    assert task_id_of("key", "one") == task_id_of("key", "one")
    assert task_id_of(None, "one") is None


@pytest.mark.parametrize(
    "key", ["01890a5d-ac96-774b-bcce-b302099a8057", "01ARZ3NDEKTSV4RRFFQ69G5FAV"]
)
def test_a_key_that_is_an_id_is_the_tasks_own(key: str) -> None:
    """So that a caller knows it before the answer."""
    assert task_id_of(key, "one") == key


@pytest.mark.parametrize("key", ["", " ", "a\nb", "ä", "x" * 256, " a"])
def test_a_key_that_can_not_be_told_from_others_is_refused(key: str) -> None:
    """Headers are trimmed on their way, and bytes beyond ASCII read in several ways."""
    with pytest.raises(InvalidMessage, match="idempotency-key"):
        task_id_of(key, "one")
