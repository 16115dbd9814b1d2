"""What is heard of one task through gateways: one stream of events, gone on with at another gateway where one breaks off."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec

from agent_sandbox.events import Event, Missing, Output, Progress, Recovered, Started
from agent_sandbox.orders import Order
from agent_sandbox.over_http.calls import Calls
from agent_sandbox.over_http.paths import task_path
from agent_sandbox.over_http.sse import EventReader
from agent_sandbox.transport import Ear
from shared import logs
from shared.errors import NotFound, OutcomeUnknown, ServiceError, Unavailable
from shared.messages import OutputEvent, TaskResult
from shared.rest import StreamEvent

log = logs.get(__name__)

SILENT_S = 40.0
"""A stream on which nothing comes for so long, not even a sign of life, is dead."""
AGAIN_S = (0.0, 0.1, 0.2, 0.5, 1.0)
"""Pauses between tries to open a stream that broke off; the last one again and again."""

_decoder = msgspec.json.Decoder(StreamEvent)


class HttpWatch:
    """One stream, and a place in it (see `Watch`)."""

    def __init__(self, calls: Calls, order: Order, ear: Ear) -> None:
        """Hear nothing yet."""
        self._calls = calls
        self._path = task_path(order.session, order.task) + "/output"
        self._ear = ear
        self._place = ""
        self._tries = 0
        self._is_full = False
        self._reading: asyncio.Task[None] | None = None
        self._ended: ServiceError | None = None

    async def listen(self) -> None:
        """Do nothing yet: the stream shows what happened before it was opened."""

    def accepted(self) -> None:
        """Begin to read the stream."""
        if self._reading is None:
            self._reading = asyncio.create_task(self._read_all(), name="task-stream")

    async def read(self) -> TaskResult | None:
        """Return nothing: the stream brings the result.

        Raises:
            ServiceError: the stream can't be read, whatever is tried: refused.
        """
        if self._ended is not None:
            raise self._ended
        return None

    def rest(self, stored: TaskResult) -> list[Event]:
        """Return the gap that a slow reader's full queue made; without one the stream has brought all."""
        if not self._is_full:
            return []
        return [Missing(stream=None, size=None, attempt=stored.attempt)]

    async def close(self) -> None:
        """Read no more."""
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.cancel()
            await asyncio.wait({reading})

    async def _read_all(self) -> None:
        """Read until the result, from gateway to gateway. Whoever waits for the result bounds it."""
        while True:
            try:
                if await self._read_one():
                    return
            except NotFound as exc:  # accepted a moment ago, and not seen everywhere
                log.debug("stream.not_found", path=self._path, error=str(exc))
            except (Unavailable, OutcomeUnknown) as exc:
                log.debug("stream.broke", path=self._path, error=str(exc))
            except ServiceError as exc:
                self._ended = exc
                return
            self._tries += 1
            await asyncio.sleep(AGAIN_S[min(self._tries, len(AGAIN_S)) - 1])

    async def _read_one(self) -> bool:
        """Read one stream to its end; return whether the result came."""
        headers = {"accept": "text/event-stream"}
        if self._place:
            headers["last-event-id"] = self._place
        reader = EventReader()
        async with self._calls.stream(self._path, headers, SILENT_S) as lines:
            async for line in lines:
                found = reader.take(line)
                if found is None:
                    continue
                self._tries = 0
                with suppress(msgspec.DecodeError, msgspec.ValidationError):  # of a newer gateway
                    event = _decoder.decode(found.data)
                    self._place = found.id or event.id
                    if event.result is not None:
                        self._ear.settle(event.result)
                        return True
                    self._hear(event)
        return False

    def _hear(self, event: StreamEvent) -> None:
        if not self._is_full and not self._ear.hear(event_of(event)):
            self._is_full = True


def event_of(said: StreamEvent) -> Event:
    """Return the event that one of the stream stands for."""
    match said.event:
        case "started":
            return Started(
                attempt=said.attempt, epoch=said.epoch, worker=said.worker, timing=said.timing
            )
        case "output":
            data = said.data if said.data is not None else (said.text or "").encode()
            stream = said.stream or "stdout"
            return Output(stream=stream, offset=said.offset, data=data, attempt=said.attempt)
        case "recovered":
            what = OutputEvent(
                task=said.task,
                worker=said.worker,
                interruption=said.interruption,
                workspace_lost=said.workspace_lost,
            )
            return Recovered(attempt=said.attempt, event=what)
        case "progress":
            return Progress(
                attempt=said.attempt,
                path=said.path,
                direction=said.direction or "in",
                done_bytes=said.done_bytes,
                total_bytes=said.total_bytes,
            )
        case _:
            return Missing(stream=said.stream, size=said.size, attempt=said.attempt)
