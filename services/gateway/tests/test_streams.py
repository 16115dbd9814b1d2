"""Streams of events: how many a tenant has, and how each ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

import pytest
from litestar import Request

from agent_sandbox.results import NoResultYet
from gateway.adapters.http import streams as module
from gateway.adapters.http.answers import ProblemError
from gateway.adapters.http.deps import AnyRequest
from gateway.adapters.http.following import wants_stream
from gateway.adapters.http.streams import Reader, Streams
from shared.errors import ServiceError, Unavailable
from shared.rest import StreamEvent


class Events:
    """A task's events, and whether somebody still reads them."""

    def __init__(
        self, count: int, *, more: bool = False, error: ServiceError | None = None
    ) -> None:
        """Have so many at once; with `more` the next one never comes, with `error` that is what comes."""
        self._count, self._more, self._error = count, more, error
        self.closed = False

    async def read(self) -> AsyncGenerator[StreamEvent, None]:
        """Yield them."""
        try:
            for number in range(self._count):
                yield StreamEvent(event="output", id=str(number), task="task-0001")
            if self._more:
                await asyncio.Event().wait()
            if self._error is not None:
                raise self._error
        finally:
            self.closed = True


def id_of(event: StreamEvent) -> bytes:
    """Write an event."""
    return event.id.encode()


async def for_ever() -> None:
    """Be a reader who stays."""
    await asyncio.Event().wait()


def reader(
    send: Callable[[list[bytes]], Awaitable[None]],
    *,
    write: Callable[[StreamEvent], bytes] = id_of,
    gone: Awaitable[object] | None = None,
    withdrawn: asyncio.Event | None = None,
) -> Reader:
    """Return one who stays, if nothing else is said."""
    return Reader(
        write=write,
        send=send,
        gone=gone or for_ever(),
        withdrawn=withdrawn or asyncio.Event(),
    )


def test_a_tenants_places_are_counted_and_given_back() -> None:
    """One more is refused with 429, another tenant's is not; how many there are together is told."""
    told: list[int] = []
    streams = Streams(2, told.append)
    with streams.place("mine"):
        with streams.place("mine"), streams.place("other"):
            with pytest.raises(ProblemError, match="tenant_streams_max") as refused:
                streams.place("mine").__enter__()
            assert refused.value.problem.status == 429
        with streams.place("mine"):
            pass
    assert told == [1, 2, 3, 2, 1, 2, 1, 0]


@pytest.mark.parametrize(
    ("accept", "is_free", "is_full"),
    [
        (None, False, False),
        ("*/*", False, False),
        ("application/json, text/event-stream", False, False),
        ("text/event-stream", True, True),
        ("application/json;q=0.5, text/event-stream", True, False),
        ("text/event-stream;q=rubbish", True, True),
        ("rubbish", False, False),
    ],
)
def test_a_create_is_answered_with_a_stream_where_that_is_asked_for(
    accept: str | None, is_free: bool, is_full: bool
) -> None:
    """Who takes JSON as well gets that while the tenant's places are taken; who does not is refused then."""
    streams = Streams(1)
    headers = [] if accept is None else [(b"accept", accept.encode())]
    request: AnyRequest = Request({"type": "http", "headers": headers, "state": {}})  # type: ignore[typeddict-item]  # all that is read

    assert wants_stream(request, streams, "mine") is is_free
    with streams.place("mine"):
        assert wants_stream(request, streams, "mine") is is_full


def test_a_gateway_that_leaves_opens_none() -> None:
    """Its reader asks another; 503 says so."""
    streams = Streams(2)
    streams.leave()
    with pytest.raises(ProblemError) as refused:
        streams.place("mine").__enter__()
    assert (refused.value.problem.status, refused.value.problem.code) == (503, "draining")


async def test_all_events_are_sent_in_order_and_then_it_ends() -> None:
    """The last one is the task's result; what is ready goes in one piece."""
    events, sent = Events(5), []

    async def send(pieces: list[bytes]) -> None:
        sent.append(pieces)

    assert await Streams(1).pump(events.read(), reader(send)) == "done"
    assert sent == [[b"0", b"1", b"2", b"3", b"4"]]
    assert events.closed


async def test_a_slow_reader_lets_little_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events are read as they are taken: beyond a piece's bound they wait where they are held in few bytes."""
    monkeypatch.setattr(module, "READY_BYTES_MAX", 3)
    written, sent = 0, []

    def write(event: StreamEvent) -> bytes:
        nonlocal written
        written += 1
        return id_of(event)

    async def send(pieces: list[bytes]) -> None:
        for _ in range(5):
            await asyncio.sleep(0)
        sent.append(len(pieces))
        assert written <= sum(sent) + 3

    assert await Streams(1).pump(Events(10).read(), reader(send, write=write)) == "done"
    assert sent == [3, 3, 3, 1]


@pytest.mark.parametrize("how", ["gone", "leaving", "stalled", "withdrawn", "broken"])
async def test_a_stream_ends_with_its_reader_and_with_its_gateway(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And leaves nothing that goes on reading."""
    monkeypatch.setattr(module, "STALL_S", 0.05)
    monkeypatch.setattr(module, "READY_BYTES_MAX", 1)  # one event at a time
    streams, events = Streams(1), Events(2, more=True)
    has_left, withdrawn = asyncio.Event(), asyncio.Event()
    sent: list[list[bytes]] = []

    async def send(pieces: list[bytes]) -> None:
        sent.append(pieces)
        if how == "broken":
            raise OSError("the connection broke")
        if len(sent) == 2:
            if how == "gone":
                has_left.set()
            elif how == "leaving":
                streams.leave()
            elif how == "withdrawn":
                withdrawn.set()
            else:
                await for_ever()

    before = asyncio.all_tasks()
    async with asyncio.timeout(15):
        who = reader(send, gone=has_left.wait(), withdrawn=withdrawn)
        pumping = streams.pump(events.read(), who)
        if how == "broken":
            with pytest.raises(OSError, match="broke"):
                await pumping
        else:
            assert await pumping == how
    assert events.closed
    assert asyncio.all_tasks() == before


async def test_a_stream_on_which_nothing_happens_gives_signs_of_life(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So that proxies keep it and readers know."""
    monkeypatch.setattr(module, "ALIVE_S", 0.01)
    streams, events, signs = Streams(1), Events(1, more=True), []

    async def send(pieces: list[bytes]) -> None:
        signs.append(pieces)
        if len(signs) == 4:
            streams.leave()

    async with asyncio.timeout(15):
        await streams.pump(events.read(), reader(send))
    assert signs == [[b"0"], [], [], []]


async def test_an_error_of_the_events_is_not_taken_for_a_slow_reader() -> None:
    """Also one that is a `TimeoutError`, as the end of a wait: what was there is sent, and the reader may come back."""
    for error in (NoResultYet("task-0001", "task-0001", "the wait is over"), Unavailable("gone")):
        events, sent = Events(2, error=error), []

        async def send(pieces: list[bytes], sent: list[bytes] = sent) -> None:
            sent += pieces

        assert await Streams(1).pump(events.read(), reader(send)) == "broken"
        assert (sent, events.closed) == ([b"0", b"1"], True)
