"""Puts a task's messages in order, each once: those heard live, and those that were stored.

The live way may lose messages, and loses those that nobody reads in time; the stored ones come when they are asked for,
and may end early. Every message has a number in its attempt, so that a gap in either is noticed and filled from the other.
Only what neither has is skipped, and said to be missing. Nothing here waits or asks: see `over_nats.replay`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from agent_sandbox.events import (
    Event,
    Here,
    Missing,
    Output,
    Progress,
    Recovered,
    Started,
    StreamName,
)
from agent_sandbox.positions import START, Position
from agent_sandbox.said import Queue, Said, number_of, read_said
from shared import headers
from shared.errors import InvalidMessage
from shared.files import Stream
from shared.messages import OutputEvent, TaskResult, decode
from shared.views import OutputMark, OutputMessage

LIVE_BYTES_MAX = 1024 * 1024
"""Held for a slow reader. What comes on top is dropped, and asked for again when he has read so far."""
_LOST_TEXT = "\N{REPLACEMENT CHARACTER}"


class Sequencer:
    """The events of one task, for one reader."""

    def __init__(
        self, task: str, after: Position | None = None, *, live_bytes_max: int = LIVE_BYTES_MAX
    ) -> None:
        """Start before the first attempt, or go on.

        Args:
            task: its id.
            after: go on behind this, with what was stored before what is heard; None: all will be heard.
            live_bytes_max: see `LIVE_BYTES_MAX`.
        """
        at = after or START
        self._task = task
        self._attempt = (at.epoch, at.attempt)
        self._number = at.number
        self._seen: dict[StreamName, int] = {"stdout": at.stdout, "stderr": at.stderr}
        self._live, self._stored = Queue(), Queue()
        self._live_bytes_max = live_bytes_max
        self._capped = False
        self._drops = 0
        self.behind = after is not None
        """What was said before the live messages has to be asked for."""

    @property
    def position(self) -> str:
        """Where the reader stands."""
        at = Position(*self._attempt, self._number, self._seen["stdout"], self._seen["stderr"])
        return at.text(self._task)

    @property
    def mark(self) -> OutputMark | None:
        """The message that comes next; None: the first one."""
        return OutputMark(*self._attempt, self._number) if self._attempt != (0, 0) else None

    @property
    def drops(self) -> int:
        """How often live messages were dropped, for `give`."""
        return self._drops

    @property
    def held_bytes(self) -> int:
        """What waits behind a gap."""
        return self._live.size + self._stored.size

    @property
    def is_stuck(self) -> bool:
        """Whether something must be asked for, when `pop` has nothing more."""
        return self.behind or bool(self._live.said) or bool(self._stored.said)

    @property
    def has_stored(self) -> bool:
        """Whether stored messages wait behind a gap, when `pop` has nothing more."""
        return bool(self._stored.said)

    @property
    def has_next(self) -> bool:
        """Whether `pop` has something."""
        return self._source() is not None

    # --- what comes in ---------------------------------------------------------------------------------------------

    def hear(self, fields: Mapping[str, str], body: bytes) -> None:
        """Take a live message."""
        said = read_said(fields, body)
        if said is None or self._is_old(said):
            return
        if self._live.size + said.size > self._live_bytes_max:
            self._live.clear()
            self._drops += 1
            self.behind = True
            return
        self._live.add(said)

    def give(self, stored: tuple[OutputMessage, ...], *, more: bool, drops: int) -> None:
        """Take an answer: the messages that follow those of the answer before.

        Args:
            stored: the messages.
            more: there are more of them.
            drops: `drops` when it was asked for.
        """
        for message in stored:
            said = read_said(message.headers, message.data)
            if said is not None and not self._is_old(said):
                self._stored.add(said)
        if not more and drops == self._drops:
            self.behind = False

    def forget_stored(self) -> None:
        """Drop what was stored and does not follow: it will be asked for again."""
        self._stored.clear()

    # --- what goes out ---------------------------------------------------------------------------------------------

    def pop(self) -> list[Event] | None:
        """Return the next message's events; None: nothing follows of what is here."""
        while (queue := self._source()) is not None:
            events = self._open(queue.pop())
            if events:
                return events
        return None

    def skip(self, result: TaskResult | None = None) -> None:
        """Give up what lies before the earliest message that is here, unless the result fills all of it.

        Args:
            result: the task's, once it is there.
        """
        self.behind = False
        heads = [queue.said[0] for queue in (self._live, self._stored) if queue.said]
        if result is not None and self._is_filled_by(result):
            self._live.clear()
            self._stored.clear()
        elif heads:
            first = min(heads, key=lambda said: said.place)
            self._begin(first.attempt)
            self._number = first.number

    def is_short_of(self, result: TaskResult) -> bool:
        """Whether messages are yet to come before the result, as far as that can be told."""
        if self.is_stuck:
            return True
        attempt, size = (result.epoch, result.attempt), result.stdout.size + result.stderr.size
        if attempt > self._attempt:
            return size > 0 or result.timing.started_ms > 0
        return attempt == self._attempt and size > sum(self._seen.values()) and not self._capped

    def finish(self, result: TaskResult) -> list[Event]:
        """Return what no message said, as far as the result holds it."""
        events: list[Event] = []
        attempt = (result.epoch, result.attempt)
        if attempt > self._attempt and result.stdout.size + result.stderr.size:
            self._begin(attempt)
        if attempt != self._attempt:
            return events
        for name, size, exact in _kept(result):
            rest = size - self._seen[name]
            if rest > 0:
                events += self._miss(name, size - len(exact))
                events += self._write(name, exact[-rest:])
        return events

    def _is_filled_by(self, result: TaskResult) -> bool:
        """Whether the result holds every byte that its attempt wrote and that was not given yet."""
        attempt = (result.epoch, result.attempt)
        given = self._seen if attempt == self._attempt else {"stdout": 0, "stderr": 0}
        return attempt >= self._attempt and all(
            size - given[name] <= len(exact) for name, size, exact in _kept(result)
        )

    def _source(self) -> Queue | None:
        """Return the queue whose first message comes next, if one's does."""
        for queue in (self._stored, self._live):
            while queue.said and self._is_old(queue.said[0]):
                queue.pop()
        if self._stored.said and self._follows(self._stored.said[0]):
            return self._stored
        may_hear = not self.behind or self._stored.said
        return (
            self._live
            if may_hear and self._live.said and self._follows(self._live.said[0])
            else None
        )

    def _is_old(self, said: Said) -> bool:
        """Whether it was had already, or comes from an owner that was revoked meanwhile."""
        return said.place < (self._attempt, self._number)

    def _follows(self, said: Said) -> bool:
        if said.attempt == self._attempt:
            return said.number == self._number
        return said.attempt > self._attempt and said.number == 0

    def _begin(self, attempt: tuple[int, int]) -> None:
        if attempt != self._attempt:
            self._attempt, self._number, self._capped = attempt, 0, False
            self._seen = {"stdout": 0, "stderr": 0}

    def _open(self, said: Said) -> list[Event]:
        self._begin(said.attempt)
        kind = said.fields.get(headers.EVENT)
        if kind == "output":
            return self._output(said)
        self._number = said.number + 1
        event = read_event(said.body)
        match kind:
            case "started":
                return [started_of(event, self._here())]
            case "recovered" | "workspace_lost":
                return [Recovered(event=event, **self._here())]
            case "progress" if event.transfer is not None:
                return [Progress(**msgspec.structs.asdict(event.transfer), **self._here())]
            case "truncated":
                self._capped = True
                return [Missing(stream=None, size=None, **self._here())]
            case _:  # a newer worker's event
                return []

    def _output(self, said: Said) -> list[Event]:
        stream: StreamName = "stderr" if said.fields.get(headers.STREAM) == "stderr" else "stdout"
        other: StreamName = "stdout" if stream == "stderr" else "stderr"
        own = number_of(said.fields, headers.STREAM_OFFSET)
        events = self._miss(other, number_of(said.fields, headers.OFFSET) - own)
        events += self._miss(stream, own)
        # Who goes on from one of these positions is given the message itself again, and has it yet.
        self._number = said.number + 1
        return events + self._write(stream, said.body[max(0, self._seen[stream] - own) :])

    def _miss(self, stream: StreamName, offset: int) -> list[Event]:
        """Say that nobody has what a stream held up to an offset."""
        size = offset - self._seen[stream]
        if size <= 0:
            return []
        self._seen[stream] = offset
        return [Missing(stream=stream, size=size, **self._here())]

    def _write(self, stream: StreamName, data: bytes) -> list[Event]:
        if not data:
            return []
        offset = self._seen[stream]
        self._seen[stream] += len(data)
        return [Output(stream=stream, offset=offset, data=data, **self._here())]

    def _here(self) -> Here:
        epoch, attempt = self._attempt
        return {"epoch": epoch, "attempt": attempt, "position": self.position}


def _kept(result: TaskResult) -> Iterator[tuple[StreamName, int, bytes]]:
    """Yield of both streams the size and what of its end the result has as it was written.

    Bytes that were no text are replaced in the result: what it has of them is not what was written.
    """
    streams: tuple[tuple[StreamName, Stream], ...] = (
        ("stdout", result.stdout),
        ("stderr", result.stderr),
    )
    for name, stream in streams:
        yield name, stream.size, stream.text.rpartition(_LOST_TEXT)[2].encode()


def started_of(event: OutputEvent, here: Here) -> Started:
    """Return the start that a worker's event tells of."""
    return Started(
        worker=event.worker, at_ms=event.at_ms, pool=event.pool, timing=event.timing, **here
    )


def read_event(body: bytes) -> OutputEvent:
    """Read an event's body; one that cannot be read says nothing."""
    try:
        return decode(body, OutputEvent)
    except InvalidMessage:
        return OutputEvent(task="")
