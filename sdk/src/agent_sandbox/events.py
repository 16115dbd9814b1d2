"""Events of a running task, put in order: what started, what was written, what was recovered, what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from shared import headers
from shared.errors import InvalidMessage
from shared.files import Stream
from shared.messages import OutputEvent, TaskResult, Timing, decode

StreamName = Literal["stdout", "stderr"]


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """The first instruction of user code runs."""

    attempt: int
    epoch: int
    worker: str = ""
    at_ms: float = 0
    """Worker's wall clock."""
    pool: str = ""
    timing: Timing | None = None
    """How and when the task came to its worker."""


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """User code wrote something."""

    stream: StreamName
    offset: int
    """Bytes of this attempt's output on this stream before this piece."""
    data: bytes
    attempt: int


class Recovered(msgspec.Struct, frozen=True, kw_only=True):
    """The session goes on after a loss: of its worker in mid-task (`event.interruption`; the output starts anew where
    the task is run again), of its workspace (`event.workspace_lost`), or of both."""

    attempt: int
    event: OutputEvent


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """Output that can't be shown: it was over the limit, or got lost on the way and is not in the result either."""

    stream: StreamName | None
    size: int | None
    """Bytes; None: not known."""
    attempt: int


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """A file by reference is on its way into the workspace (`in`) or out of it (`out`), or has arrived."""

    attempt: int
    path: str
    direction: Literal["in", "out"]
    done_bytes: int
    total_bytes: int


Event = Progress | Started | Output | Recovered | Missing


class Sequencer:
    """Turns the messages of one task into events, in order and each once.

    The live way is core NATS: it keeps order, but may lose messages while a connection is renewed. From the first hole
    on, output is held back; when the result is there, `finish` gives the rest from it.
    """

    def __init__(self) -> None:
        """Start before the first attempt."""
        self._epoch = -1
        self._attempt = 0
        self._next_offset = 0
        self._has_hole = False
        self._seen: dict[StreamName, int] = {"stdout": 0, "stderr": 0}

    def take(self, fields: Mapping[str, str], body: bytes) -> list[Event]:
        """Return the events that a message yields: none where it is a zombie's or comes after a hole."""
        try:
            epoch, attempt = int(fields.get(headers.EPOCH, 0)), int(fields.get(headers.ATTEMPT, 1))
            offset = int(fields.get(headers.OFFSET, 0))
        except ValueError:
            return []
        if epoch < self._epoch:  # an owner that was revoked meanwhile
            return []
        if (epoch, attempt) != (self._epoch, self._attempt):
            self._begin(epoch, attempt)
        match fields.get(headers.EVENT):
            case "started":
                event = _read_event(body)
                return [
                    Started(
                        attempt=attempt,
                        epoch=epoch,
                        worker=event.worker,
                        at_ms=event.at_ms,
                        pool=event.pool,
                        timing=event.timing,
                    )
                ]
            case "recovered" | "workspace_lost":
                return [Recovered(attempt=attempt, event=_read_event(body))]
            case "progress":
                return _progress(_read_event(body), attempt)
            case "truncated":
                return [Missing(stream=None, size=None, attempt=attempt)]
            case "output":
                stream: StreamName = (
                    "stderr" if fields.get(headers.STREAM) == "stderr" else "stdout"
                )
                return self._write(stream, offset, body)
            case _:  # a newer worker's event
                return []

    def lose(self, event: Event) -> None:
        """Take back an event that nobody could be given; `finish` gives its output again, if the result has it."""
        self._has_hole = True
        if isinstance(event, Output):
            self._seen[event.stream] -= len(event.data)

    def finish(self, result: TaskResult) -> list[Event]:
        """Return the output that was not heard live, as far as the result holds it."""
        events: list[Event] = []
        streams: tuple[tuple[StreamName, Stream], ...] = (
            ("stdout", result.stdout),
            ("stderr", result.stderr),
        )
        if result.epoch != self._epoch:
            self._begin(result.epoch, result.attempt)
        for name, stream in streams:
            rest = stream.size - self._seen[name]
            if rest <= 0:
                continue
            kept = stream.text.encode()
            if rest > len(kept):
                lost = rest - len(kept)
                events.append(Missing(stream=name, size=lost, attempt=self._attempt))
                self._seen[name] += lost
                rest = len(kept)
            events += self._piece(name, kept[len(kept) - rest :])
        return events

    def _begin(self, epoch: int, attempt: int) -> None:
        self._epoch, self._attempt = epoch, attempt
        self._next_offset = 0
        self._has_hole = False
        self._seen = {"stdout": 0, "stderr": 0}

    def _write(self, stream: StreamName, offset: int, body: bytes) -> list[Event]:
        if self._has_hole or offset > self._next_offset:
            self._has_hole = True
            return []
        fresh = body[self._next_offset - offset :]
        self._next_offset += len(fresh)
        return self._piece(stream, fresh)

    def _piece(self, stream: StreamName, data: bytes) -> list[Event]:
        if not data:
            return []
        event = Output(stream=stream, offset=self._seen[stream], data=data, attempt=self._attempt)
        self._seen[stream] += len(data)
        return [event]


def _read_event(body: bytes) -> OutputEvent:
    try:
        return decode(body, OutputEvent)
    except InvalidMessage:
        return OutputEvent(task="")


def _progress(event: OutputEvent, attempt: int) -> list[Event]:
    moved = event.transfer
    if moved is None:
        return []
    return [Progress(attempt=attempt, **msgspec.structs.asdict(moved))]
