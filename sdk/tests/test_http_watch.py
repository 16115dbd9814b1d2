"""A task's stream over HTTP, as it comes from a gateway: put together, bounded, gone on with."""

from __future__ import annotations

import asyncio
import time

import msgspec
import pytest

from agent_sandbox.access import Access
from agent_sandbox.events import Output, Started
from agent_sandbox.orders import Order, name_order
from agent_sandbox.over_http import calls as module
from agent_sandbox.over_http.calls import Call, Calls
from agent_sandbox.over_http.sse import LINE_BYTES_MAX, EventReader
from agent_sandbox.over_http.watch import HttpWatch
from agent_sandbox.transport import NEW
from shared.errors import OutcomeUnknown
from shared.messages import TaskResult
from shared.rest import StreamEvent
from shared.testing.gateways import OK, Gateway, problem

ORDER = name_order("default", "task-0001", None)
RESULT = TaskResult(task="task-0001", session="task-0001", status="ok", tenant="default", epoch=1)
TASK = "3f2b8c1e-8d0f-4a52-9d55-3c1c5b1e7a10"
NEW_ORDER = Order(tenant="t", session=TASK, task=TASK, body=b"{}", pool="p", wait_s=5.0)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
STRANGE = "a\u2028b\u2029c\x85d\x0be\r\nf"
"""All of it ends a line by Unicode, and all but the last lies in JSON as it is."""


def said(event: StreamEvent) -> bytes:
    """Return an event as a gateway writes it."""
    return b"id: %s\ndata: %s\n\n" % (event.id.encode(), msgspec.json.encode(event))


def output(text: str) -> bytes:
    """Return output."""
    return said(StreamEvent(event="output", id="1", task="task-0001", stream="stdout", text=text))


LAST = said(StreamEvent(event="result", id="2", task="task-0001", result=RESULT))


class Listener:
    """Takes the result of one task (see `Ear`)."""

    def __init__(self) -> None:
        self.result: asyncio.Future[TaskResult] = asyncio.get_running_loop().create_future()

    def hear_start(self, started: Started) -> None:
        """Do not care."""

    def settle(self, stored: TaskResult) -> None:
        """Keep it."""
        self.result.set_result(stored)


async def read_all(*answers: bytes) -> list[str]:
    """Return what a task has written, read from a gateway that answers so."""
    async with Gateway(*answers).listening() as gateway:
        made, listener = Calls(Access((gateway.url,), None, "token-1")), Listener()
        watch = HttpWatch(made, ORDER, listener, NEW)
        watch.accepted()
        try:
            async with asyncio.timeout(10):
                texts = [
                    event.data.decode()
                    async for event in watch.events(listener.result)
                    if isinstance(event, Output)
                ]
                assert await listener.result == RESULT
        finally:
            await watch.close()
            await made.close()
    return texts


async def test_what_unicode_calls_the_end_of_a_line_ends_no_event() -> None:
    """A program may write it, and its text arrives whole."""
    assert await read_all(HEAD + output(STRANGE) + LAST) == [STRANGE]


async def test_a_stream_for_which_there_is_no_place_is_opened_later() -> None:
    """The task runs all the same: its result is no refusal."""
    busy = problem(429, "too_many_requests", more="retry-after: 0.01\r\n")
    assert await read_all(busy, busy, HEAD + output("hi") + LAST) == ["hi"]


def created(body: bytes, place: str = "/v1/tasks/{}/output?accepted_ms=1") -> bytes:
    """Return the answer to a create that is the task's stream."""
    where = f"content-location: {place.format(TASK)}\r\n".encode()
    view = b'id: 0\ndata: {"event":"accepted","id":"0","task":"%s"}\n\n' % TASK.encode()
    return HEAD.replace(b"\r\n", b"\r\n" + where, 1) + view + body


async def publish_and_read(*answers: bytes) -> tuple[list[str], list[str]]:
    """Publish a task at a gateway that answers so; return what it has written, and the requests' first lines."""
    async with Gateway(*answers).listening() as gateway:
        made, listener = Calls(Access((gateway.url,), None, "token-1")), Listener()
        watch = HttpWatch(made, NEW_ORDER, listener, NEW)
        try:
            async with asyncio.timeout(10):
                await watch.publish(time.monotonic() + 5)
                watch.accepted()
                texts = [
                    event.data.decode()
                    async for event in watch.events(listener.result)
                    if isinstance(event, Output)
                ]
        finally:
            await watch.close()
            assert made.has_place, "its place is given back"
            await made.close()
    return texts, [head.partition(" HTTP")[0].partition("?")[0] for head in gateway.heard]


async def test_a_publish_is_answered_with_the_stream() -> None:
    """One request for both."""
    texts, asked = await publish_and_read(created(output("hi") + LAST))
    assert (texts, asked) == (["hi"], ["POST /v1/tasks"])


async def test_a_stream_that_a_publish_opened_is_gone_on_with_where_it_breaks_off() -> None:
    """And one that the gateway had no place for, or does not know yet, is opened behind the publish."""
    texts, asked = await publish_and_read(
        created(output("a")), HEAD + output("b") + LAST.replace(b"id: 2", b"id: 3")
    )
    assert texts == ["a", "b"]
    assert asked == ["POST /v1/tasks", f"GET /v1/sessions/{TASK}/tasks/{TASK}/output"]

    view = b'{"task":"%s","session":"%s"}' % (TASK.encode(), TASK.encode())
    plain = (
        b"HTTP/1.1 202 Accepted\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        % len(view)
    )
    assert await publish_and_read(plain + view, HEAD + output("hi") + LAST) == (["hi"], asked)


async def test_a_stream_that_does_not_name_the_task_is_no_acceptance() -> None:
    """Whatever lies between may answer with one of its own."""
    for place in ("/v1/tasks/another/output", ""):
        with pytest.raises(OutcomeUnknown, match="does not name it"):
            await publish_and_read(created(LAST, place))


async def test_streams_leave_connections_for_what_is_asked_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many tasks run, one can be cancelled; the stream that waits comes when another ends."""
    monkeypatch.setattr(module, "STREAMS_MAX", 2)
    monkeypatch.setattr(module, "CONNECTIONS_MAX", 3)
    opened: asyncio.Queue[int] = asyncio.Queue()
    ends = [asyncio.Event() for _ in range(3)]

    async with Gateway(HEAD, HEAD, OK, HEAD).listening() as gateway:
        made = Calls(Access((gateway.url,), None, "token-1"))

        async def hold(number: int) -> None:
            async with made.stream("/v1/x", {}, 5):
                opened.put_nowait(number)
                await ends[number].wait()

        async with asyncio.timeout(10), asyncio.TaskGroup() as group:
            for number in range(3):
                group.create_task(hold(number))
            assert sorted([await opened.get(), await opened.get()]) == [0, 1]
            await made.ask(Call(method="GET", path="/v1/pools"), within_s=5)
            assert opened.empty()
            ends[0].set()
            assert await opened.get() == 2
            ends[1].set()
            ends[2].set()
        await made.close()


def test_an_event_without_an_end_is_not_kept() -> None:
    """Neither one long line nor many of one event."""
    for piece in (b"data: " + b"x" * 65536, b"data: " + b"x" * 65536 + b"\n"):
        reader = EventReader()
        for _ in range(LINE_BYTES_MAX // len(piece)):
            assert not list(reader.take(piece))
        with pytest.raises(OutcomeUnknown, match="bytes"):
            list(reader.take(piece + piece))


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_events_are_the_same_however_they_are_cut(size: int) -> None:
    """Comments mean nothing; a carriage return before the line feed belongs to the end of the line."""
    stream = b": alive\n\nid: 1\r\ndata: a\r\ndata:b\r\n\r\ndata: c\xe2\x80\xa8d\n\n"
    reader = EventReader()
    found = [
        (event.id, event.data)
        for at in range(0, len(stream), size)
        for event in reader.take(stream[at : at + size])
    ]
    assert found == [("1", b"a\nb"), ("1", b"c\xe2\x80\xa8d")]
