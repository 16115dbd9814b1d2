"""What a gateway does to callers who are slow, huge, many, or not who they seem; all before it asks the system."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.adapters.http.wire import HEAD_BYTES_MAX
from shared.testing.look import until

Start = Callable[..., Awaitable[Any]]
HELLO = b"GET /v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n"
TOKEN = b"Authorization: Bearer a-token-of-the-tests\r\n"
POST = b"POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + TOKEN
CLOSE = b"Connection: close\r\n\r\n"


def status(answer: bytes) -> int:
    """Return an answer's status."""
    return int(answer.split(b" ", 2)[1])


def problem(answer: bytes) -> dict[str, Any]:
    """Return the problem in an answer."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-type: application/problem+json" in head.lower(), answer
    found: dict[str, Any] = json.loads(body)
    assert found["status"] == status(answer)
    return found


def headers_of(answer: bytes) -> dict[str, str]:
    """Return an answer's headers."""
    lines = answer.partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
    return {
        name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
    }


async def drip(writer: asyncio.StreamWriter, piece: bytes) -> None:
    """Send a piece again and again, a little apart, until nobody takes it."""
    try:
        while True:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.05)
    except ConnectionError:
        pass


async def answer_to_dripping(gateway: Any, begin: bytes, piece: bytes) -> bytes:
    """Return what comes back while a caller sends `begin` and then next to nothing, without an end."""
    reader, writer = await gateway.connect()
    writer.write(begin)
    dripping = asyncio.create_task(drip(writer, piece))
    try:
        async with asyncio.timeout(15):
            return bytes(await reader.readuntil(b"\r\n\r\n")) + bytes(await reader.read(65536))
    finally:
        dripping.cancel()
        writer.close()


async def test_a_head_that_never_ends_is_cut_off_in_time(start: Start) -> None:
    """A slow-loris: a header each now and then would hold a place for ever."""
    gateway = await start(head_s=0.4)
    said = problem(await answer_to_dripping(gateway, HELLO, b"X-A: b\r\n"))
    assert (said["status"], said["code"]) == (408, "request_timeout")


async def test_a_connection_that_says_nothing_is_closed(start: Start) -> None:
    """There is nothing to answer."""
    gateway = await start(head_s=0.2)
    assert await gateway.say(b"") == b""


async def test_the_second_head_of_a_connection_is_timed_as_well(start: Start) -> None:
    """A good first request buys no patience."""
    gateway = await start(head_s=0.4)
    reader, writer = await gateway.connect()
    writer.write(HELLO + b"\r\n" + HELLO)
    async with asyncio.timeout(15):
        answers = await reader.read()
    writer.close()
    assert status(answers) == 200
    assert b"HTTP/1.1 408 " in answers


@pytest.mark.parametrize("piece", [b"", b" "], ids=["nothing", "a byte now and then"])
async def test_a_body_that_does_not_come_is_not_awaited(start: Start, piece: bytes) -> None:
    """Whether it stands still or only looks alive."""
    gateway = await start(body_s=0.3)
    begin = POST + b"Content-Length: 1000\r\n\r\n{"
    answer = await answer_to_dripping(gateway, begin, piece) if piece else await gateway.say(begin)
    said = problem(answer)
    assert (said["status"], said["field"]) == (408, "body")
    assert headers_of(answer)["connection"] == "close"


@pytest.mark.parametrize(
    "head",
    [
        HELLO + b"X-Big: " + b"a" * (HEAD_BYTES_MAX + 1) + b"\r\n\r\n",
        HELLO + b"X-Big: " + b"a" * 4 * HEAD_BYTES_MAX,
        HELLO + b"X-A: b\r\n" * (HEAD_BYTES_MAX // 8) + b"\r\n",
        b"GET /" + b"a" * (HEAD_BYTES_MAX + 1) + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
    ids=["one header", "a header without an end", "many headers", "the path"],
)
async def test_a_huge_head_is_refused(gateway: Any, head: bytes) -> None:
    """Wherever it is huge; the parser itself has no bound."""
    assert problem(await gateway.say(head))["status"] == 431


async def test_what_is_no_http_is_told_so(gateway: Any) -> None:
    """In the one form of all errors."""
    assert problem(await gateway.say(b"HELO there\r\n\r\n"))["status"] == 400


@pytest.mark.parametrize(
    "host", [b"evil.example", b"localhost.evil.example:80", b"", b"127.0.0.1.evil.example"]
)
async def test_a_foreign_name_is_refused(gateway: Any, host: bytes) -> None:
    """DNS rebinding: a page points its own name here, and reads what the browser lets it read of its own."""
    request = b"GET /v1/openapi.json HTTP/1.1\r\nHost: " + host + b"\r\n" + CLOSE
    assert problem(await gateway.say(request))["status"] == 421


@pytest.mark.parametrize("host", [b"localhost", b"LOCALHOST:8080", b"127.0.0.1:1", b"[::1]:99"])
async def test_its_own_names_are_taken_with_any_port(gateway: Any, host: bytes) -> None:
    """Ports are forwarded; names are what tells pages apart."""
    request = b"GET /v1/openapi.json HTTP/1.1\r\nHost: " + host + b"\r\n" + CLOSE
    assert status(await gateway.say(request)) == 200


async def test_two_names_are_one_too_many(gateway: Any) -> None:
    """Whoever stands between might read the other one."""
    assert problem(await gateway.say(HELLO + b"Host: evil.example\r\n" + CLOSE))["status"] == 400


@pytest.mark.parametrize("origin", [b"https://evil.example", b"null", b"http://localhost.evil"])
@pytest.mark.parametrize("method", [b"POST", b"GET", b"OPTIONS"])
async def test_a_foreign_page_may_not_ask(gateway: Any, origin: bytes, method: bytes) -> None:
    """Cross-origin: also where a browser sends a form or a preflight without being asked for more."""
    request = method + b" /v1/tasks HTTP/1.1\r\nHost: localhost\r\n" + TOKEN
    said = problem(await gateway.say(request + b"Origin: " + origin + b"\r\n" + CLOSE))
    assert (said["status"], said["code"], said["field"]) == (403, "foreign_origin", "origin")


@pytest.mark.parametrize("origin", [b"http://localhost", b"https://console.example"])
async def test_its_own_pages_and_named_ones_may_ask(start: Start, origin: bytes) -> None:
    """They still need a token."""
    gateway = await start(origins=("https://console.example",))
    request = b"GET /v1/pools HTTP/1.1\r\nHost: localhost\r\nOrigin: " + origin + b"\r\n" + CLOSE
    assert problem(await gateway.say(request))["status"] == 401


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"Authorization: Bearer wrong\r\n",
        b"Authorization: Basic eDp5\r\n",
        b"Authorization: Bearer \r\n",
    ],
    ids=["none", "wrong", "another scheme", "empty"],
)
async def test_without_a_known_token_nobody_comes_in(gateway: Any, header: bytes) -> None:
    """And is told how to say who he is."""
    request = b"GET /v1/pools HTTP/1.1\r\nHost: localhost\r\n" + header + CLOSE
    answer = await gateway.say(request)
    assert problem(answer)["status"] == 401
    assert headers_of(answer)["www-authenticate"].startswith("Bearer")


async def test_a_token_in_the_address_is_none(gateway: Any) -> None:
    """Addresses stand in logs."""
    path = b"/v1/pools?access_token=a-token-of-the-tests"
    request = b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n" + CLOSE
    assert problem(await gateway.say(request))["status"] == 401


async def test_a_tenant_that_asks_too_much_is_told_when_to_come_back(start: Start) -> None:
    """Others are not held up by it."""
    gateway = await start(requests_per_s=0.5, requests_burst=2)
    nothing = b"GET /v1/nothing HTTP/1.1\r\nHost: localhost\r\n" + TOKEN + CLOSE
    assert [status(await gateway.say(nothing)) for _ in range(2)] == [404, 404]
    answer = await gateway.say(nothing)
    assert problem(answer)["code"] == "too_many_requests"
    assert int(headers_of(answer)["retry-after"]) in (1, 2)


async def test_requests_under_way_are_bounded_for_each_tenant(start: Start) -> None:
    """One whose bodies never come must not take all there is."""
    gateway = await start(tenant_requests_max=1)
    _, writer = await gateway.connect()
    writer.write(POST + b"Content-Length: 10\r\n\r\n{")

    async def is_full() -> bool:
        request = b"GET /v1/nothing HTTP/1.1\r\nHost: localhost\r\n" + TOKEN + CLOSE
        return status(await gateway.say(request)) == 429

    await until(is_full)
    writer.close()


async def test_silent_connections_make_room_for_those_that_ask(start: Start) -> None:
    """Whoever opens all places and says nothing, or half a head, shuts nobody out."""
    gateway = await start(connections_max=3)
    silent = [await gateway.connect() for _ in range(3)]
    silent[1][1].write(HELLO)
    for _ in range(3):
        assert status(await gateway.say(HELLO + CLOSE)) == 200
    async with asyncio.timeout(15):
        assert await silent[0][0].read() == b"", "the oldest one went first"
    for _, writer in silent:
        writer.close()


async def test_when_all_places_are_in_use_the_next_is_told_so(start: Start) -> None:
    """Not left to guess, and not let in."""
    gateway = await start(connections_max=2, body_s=30)
    busy = [await gateway.connect() for _ in range(2)]
    for _, writer in busy:
        writer.write(POST + b"Content-Length: 10\r\n\r\n{")

    async def is_full() -> bool:
        return status(await gateway.say(HELLO + CLOSE)) == 503

    await until(is_full)
    for _, writer in busy:
        writer.close()

    async def has_room() -> bool:
        return status(await gateway.say(HELLO + CLOSE)) == 200

    await until(has_room)


async def test_a_caller_that_reads_nothing_is_cut_off(start: Start) -> None:
    """What it does not take would otherwise lie here for ever."""
    gateway = await start(connections_max=1, unread_s=0.5)
    _, writer = await gateway.connect()
    writer.transport.pause_reading()  # type: ignore[attr-defined]  # of a socket, both ways
    writer.write((HELLO + b"\r\n") * 2000)

    async def has_room() -> bool:
        try:
            return status(await gateway.say(HELLO + CLOSE)) == 200
        except ConnectionError:
            return False

    await until(has_room, within_s=30)
    writer.close()


async def test_a_withdrawn_token_is_refused_soon(start: Start, tmp_path: Path) -> None:
    """The file is read again when it changes; one that is damaged meanwhile changes nothing."""
    gateway = await start()
    nothing = b"GET /v1/nothing HTTP/1.1\r\nHost: localhost\r\n" + TOKEN + CLOSE
    tenants = tmp_path / "tenants.json"
    tenants.write_text("{")
    assert status(await gateway.say(nothing)) == 404
    tenants.write_text('{"tenants": {}}')

    async def is_out() -> bool:
        return status(await gateway.say(nothing)) == 401

    await until(is_out)


async def test_no_server_behind_it_is_said_as_not_now(gateway: Any) -> None:
    """A caller may come again."""
    request = b"GET /v1/pools HTTP/1.1\r\nHost: localhost\r\n" + TOKEN + CLOSE
    answer = await gateway.say(request)
    assert problem(answer)["status"] in (404, 503), "no credential, or no server"


async def test_who_waits_when_a_gateway_leaves_is_told_to_ask_another(start: Start) -> None:
    """Not 500, and not that it surely did not happen."""
    gateway = await start(body_s=30, drain_s=0.2)
    reader, writer = await gateway.connect()
    writer.write(POST + b"Content-Length: 10\r\n\r\n{")
    request = b"GET /v1/nothing HTTP/1.1\r\nHost: localhost\r\n" + TOKEN + CLOSE
    assert status(await gateway.say(request)) == 404, "it serves, so the other one is under way"
    gateway.stop.set("the test wants it")
    async with asyncio.timeout(15):
        answer = await reader.read()
    writer.close()
    said = problem(answer)
    assert (said["status"], said["code"], said["definite"]) == (503, "draining", False)
    assert headers_of(answer)["retry-after"] == "1"
