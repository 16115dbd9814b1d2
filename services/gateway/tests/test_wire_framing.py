"""What stands around a request's parts: behind a body, between its chunks, beside an upgrade, twice, or as no text."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gateway.adapters.http.answers import ProblemError
from gateway.adapters.http.exchange import Exchange
from gateway.adapters.http.wire import HEAD_BYTES_MAX
from gateway.core.pace import Pace

Start = Callable[..., Awaitable[Any]]
HELLO = b"GET /v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n"
TOKEN = b"Authorization: Bearer a-token-of-the-tests\r\n"
POST = b"POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + TOKEN
CLOSE = b"Connection: close\r\n\r\n"


def read(answer: bytes) -> tuple[int, bytes, bytes]:
    """Return an answer's status, its head in lower case, and its body."""
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ", 2)[1]), head.lower(), body


def problem(answer: bytes) -> dict[str, Any]:
    """Return the problem in an answer."""
    status, head, body = read(answer)
    assert b"content-type: application/problem+json" in head, answer
    found: dict[str, Any] = json.loads(body)
    assert found["status"] == status
    return found


async def test_a_caller_that_leaves_in_mid_body_is_no_fault_of_ours() -> None:
    """Else anybody could fill the log with errors that are none."""

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def send(_: Any) -> None: ...

    with pytest.raises(ProblemError) as said:
        await Exchange(receive, send, Pace(), has_body=True).receive()
    assert (said.value.problem.status, said.value.problem.field) == (400, "body")
    assert await Exchange(receive, send, Pace(), has_body=False).receive() == await receive()


@pytest.mark.parametrize(
    "rest",
    [
        b"0\r\nx: " + b"a" * 40 * HEAD_BYTES_MAX,
        b"0\r\n" + b"x: b\r\n" * 8 * HEAD_BYTES_MAX,
        b"1;a=" + b"b" * 40 * HEAD_BYTES_MAX,
        b"5\r\nhello, and no end of the chunk",
    ],
    ids=["a trailer without an end", "many trailers", "a chunk's extension", "a lie"],
)
async def test_what_stands_around_a_body_is_bounded_as_well(start: Start, rest: bytes) -> None:
    """Nothing else bounds it; no time is waited, since nothing that comes later could be right."""
    gateway = await start(body_s=60)
    said = problem(
        await gateway.say(POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n" + rest)
    )
    assert said["status"] == 400


async def test_headers_behind_a_body_are_no_headers(gateway: Any) -> None:
    """Whoever checked the head has seen all that counts: a token behind the body lets nobody in."""
    post = POST.replace(TOKEN, b"") + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    body = b"2\r\n{}\r\n0\r\n" + TOKEN + b"\r\n"
    assert problem(await gateway.say(post + body))["status"] == 401


UPGRADE = (
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)


@pytest.mark.parametrize(
    "head",
    [HELLO + b"Content-Length: 5\r\n", HELLO + b"Transfer-Encoding: chunked\r\n", POST],
    ids=["with a length", "in chunks", "no GET"],
)
async def test_a_websocket_that_begins_with_a_body_is_refused(gateway: Any, head: bytes) -> None:
    """Nobody waits for such a body, and nothing would ever end that connection or make it leave its place."""
    assert problem(await gateway.say(head + UPGRADE + b"\r\n"))["status"] == 400


async def test_a_websocket_does_not_begin_before_the_answer_to_what_was_asked_before(
    gateway: Any,
) -> None:
    """It would take the connection away from an answer that then never learns that its reader is gone."""
    answers = await gateway.say(HELLO + b"\r\n" + HELLO + UPGRADE + b"\r\n")
    status, head, _ = read(answers)
    assert status == 200
    assert b"\r\nconnection: close" in head
    assert answers.count(b"HTTP/1.1 ") == 1


async def test_an_upgrade_to_what_is_not_spoken_here_is_answered_without_it(gateway: Any) -> None:
    """As of a client that would like HTTP/2; the connection ends behind it, since its parser reads no further."""
    answer = await gateway.say(
        HELLO + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n" + HELLO + b"\r\n"
    )
    status, head, _ = read(answer)
    assert status == 200
    assert b"\r\nconnection: close" in head


@pytest.mark.parametrize(
    "target", [b"/v1/tasks/%ff", b"/v1/tasks/%ed%a0%80", b"/v1/sessions?after=%ff"]
)
async def test_an_address_that_is_no_text_is_refused(gateway: Any, target: bytes) -> None:
    """What stands in the place of its bytes would be the same for many names: one file's would do for another's."""
    said = problem(
        await gateway.say(b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\n" + TOKEN + CLOSE)
    )
    assert (said["status"], said["field"]) == (400, "query" if b"?" in target else "path")


@pytest.mark.parametrize("name", [b"Idempotency-Key", b"Content-Type", b"Last-Event-ID"])
async def test_a_header_that_is_read_is_there_once(gateway: Any, name: bytes) -> None:
    """Two keys would be two tasks: which of them the caller means is not ours to choose."""
    twice = b"%s: a\r\n%s: b\r\n" % (name, name)
    said = problem(await gateway.say(HELLO + TOKEN + twice + CLOSE))
    assert (said["status"], said["field"]) == (400, name.decode().lower())
