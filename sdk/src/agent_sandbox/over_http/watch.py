"""What is heard of one task through gateways: one stream of events, gone on with at another gateway where one breaks off."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, suppress

import httpx
import msgspec

from agent_sandbox.events import Event, Here, Missing, Output, Progress, Recovered, Started
from agent_sandbox.orders import Order
from agent_sandbox.over_http.calls import Call, Calls, read_end
from agent_sandbox.over_http.paths import SILENT_S, task_path
from agent_sandbox.over_http.problems import TooManyRequests
from agent_sandbox.over_http.publishing import publish_order
from agent_sandbox.over_http.sse import EventReader, ServerEvent
from agent_sandbox.positions import START
from agent_sandbox.transport import Ear, View
from shared import logs
from shared.errors import NotFound, OutcomeUnknown, ServiceError, Unavailable
from shared.messages import OutputEvent, TaskResult, decode
from shared.rest import StreamEvent

log = logs.get(__name__)

AGAIN_S = (0.0, 0.1, 0.2, 0.5, 1.0)
"""Pauses between tries to open a stream that broke off; the last one again and again."""

EVENTS_MAX = 256
"""Events that wait for a slow reader; then the stream waits, and the gateway."""
READ_S = 5.0
END_S = 0.5
"""Longest wait for the end of a stream behind its last event: then its connection can be used again."""
_decoder = msgspec.json.Decoder(StreamEvent)


class HttpWatch:
    """One stream, and a place in it (see `Watch`)."""

    def __init__(self, calls: Calls, order: Order, ear: Ear, view: View) -> None:
        """Hear nothing yet."""
        self._calls = calls
        self._order = order
        self._begun: httpx.Response | None = None
        """A stream that its publish has opened."""
        self._is_over = False
        self._path = task_path(order.session, order.task)
        # A task that waits for its first worker is known to nobody but who published it.
        self._when = "" if view.after else f"?accepted_ms={int(time.time() * 1000)}"
        self._ear = ear
        self._place = (
            "" if view.after is None or view.after == START else view.after.text(order.task)
        )
        self._tries = 0
        self.breaks = 0
        """How often an open stream broke off and had to be opened anew."""
        self._is_behind_all = view.after is not None and view.after.ended
        self._muted = False
        self._events: asyncio.Queue[Event] = asyncio.Queue(EVENTS_MAX)
        self._news = asyncio.Event()
        """There are events, or there will be none."""
        self._reading: asyncio.Task[None] | None = None
        self._is_open = False
        self._ended: ServiceError | None = None

    async def listen(self) -> None:
        """Do nothing yet: the stream shows what happened before it was opened."""

    async def publish(self, until: float) -> None:
        """Publish the task; see `publish_order`."""
        self._begun = await publish_order(self._calls, self._order, until)

    def accepted(self) -> None:
        """Begin to read the stream."""
        if self._reading is None and not self._is_behind_all:
            self._reading = asyncio.create_task(self._read_all(), name="task-stream")
            self._reading.add_done_callback(lambda _: self._news.set())

    async def read(self) -> TaskResult | None:
        """Ask for the result where the stream would not bring it: it is broken, or nobody reads what it has brought.

        Raises:
            ServiceError: the stream can't be read, whatever is tried: refused.
            Unavailable: no gateway can be asked now.
            OutcomeUnknown: no answer in time.
        """
        if self._ended is not None:
            raise self._ended
        if self._is_open and not self._events.full():
            return None
        call = Call(method="GET", path=f"{self._path}/result")
        try:
            answer = await self._calls.ask(call, within_s=READ_S)
        except NotFound:  # not seen everywhere (yet), or long gone
            return None
        return decode(answer.content, TaskResult) if answer.status_code == 200 else None

    async def events(self, result: asyncio.Future[TaskResult]) -> AsyncGenerator[Event, None]:
        """Yield what happens, in order and each once; end where the stream does."""
        while True:
            self._news.clear()
            while not self._events.empty():
                yield self._events.get_nowait()
            if self._is_over or self._reading is None or self._reading.done():
                await result  # there already; or it says why it can't come
                return
            await self._news.wait()

    def mute(self) -> None:
        """Keep nothing for `events` from now on, and let the stream go on where it waits for its reader."""
        self._muted = True
        while not self._events.empty():
            self._events.get_nowait()

    async def close(self) -> None:
        """Read no more."""
        reading, self._reading = self._reading, None
        begun, self._begun = self._begun, None
        if begun is not None:  # nobody has begun to read it
            await self._calls.leave(begun)
        if reading is not None:
            if self._is_over:
                await asyncio.wait({reading}, timeout=END_S)
            reading.cancel()
            await asyncio.wait({reading})

    async def _read_all(self) -> None:
        """Read until the result, from gateway to gateway. Whoever waits for the result bounds it."""
        while True:
            pause_s = 0.0
            try:
                if await self._read_one():
                    return
                log.debug("stream.ended", path=self._path)
            except (
                TooManyRequests
            ) as exc:  # the task goes on all the same, and its result is asked for
                log.debug("stream.not_now", path=self._path, error=str(exc))
                pause_s = exc.after_s
            except NotFound as exc:  # accepted a moment ago, and not seen everywhere
                log.debug("stream.not_found", path=self._path, error=str(exc))
            except (Unavailable, OutcomeUnknown) as exc:
                log.debug("stream.broke", path=self._path, error=str(exc))
            except ServiceError as exc:
                self._ended = exc
                return
            finally:
                was_open, self._is_open = self._is_open, False
            self.breaks += was_open
            self._tries += 1
            await asyncio.sleep(max(pause_s, AGAIN_S[min(self._tries, len(AGAIN_S)) - 1]))

    async def _read_one(self) -> bool:
        """Read one stream to its end; return whether the result came."""
        reader = EventReader()
        async with self._stream() as pieces:
            self._is_open = True
            async for piece in pieces:
                for found in reader.take(piece):
                    self._tries = 0
                    if await self._take(found):
                        self._is_over = True
                        self._news.set()
                        await read_end(pieces, END_S)
                        return True
        return False

    def _stream(self) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Return the stream that is there from the publish, or another from where the last one ended."""
        begun, self._begun = self._begun, None
        if begun is not None:
            return self._calls.reading(begun)
        headers = {"accept": "text/event-stream"}
        if self._place:
            headers["last-event-id"] = self._place
        return self._calls.stream(f"{self._path}/output{self._when}", headers, SILENT_S)

    async def _take(self, found: ServerEvent) -> bool:
        """Take an event; return whether it is the last."""
        with suppress(msgspec.DecodeError, msgspec.ValidationError):  # of a newer gateway
            event = _decoder.decode(found.data)
            if event.event == "accepted":  # that is known
                return False
            self._place = found.id or event.id
            if event.result is not None:
                self._ear.settle(event.result)
                return True
            await self._hear(event_of(event))
        return False

    async def _hear(self, event: Event) -> None:
        """Take an event; a reader who is slow holds the stream up, and so the gateway."""
        if isinstance(event, Started):
            self._ear.hear_start(event)
        if not self._muted:
            await self._events.put(event)
            self._news.set()


def event_of(said: StreamEvent) -> Event:
    """Return the event that one of the stream stands for."""
    here: Here = {"epoch": said.epoch, "attempt": said.attempt, "position": said.id}
    match said.event:
        case "started":
            return Started(
                worker=said.worker,
                at_ms=said.at_ms,
                pool=said.pool,
                timing=said.timing,
                **here,
            )
        case "output":
            data = said.data if said.data is not None else (said.text or "").encode()
            return Output(stream=said.stream or "stdout", offset=said.offset, data=data, **here)
        case "recovered":
            what = OutputEvent(
                task=said.task,
                worker=said.worker,
                interruption=said.interruption,
                recovery=said.recovery,
                workspace_lost=said.workspace_lost,
            )
            return Recovered(event=what, **here)
        case "progress":
            return Progress(
                path=said.path,
                direction=said.direction or "in",
                done_bytes=said.done_bytes,
                total_bytes=said.total_bytes,
                **here,
            )
        case _:
            return Missing(stream=said.stream, size=said.size, **here)
