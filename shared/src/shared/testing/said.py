"""What workers say of a task, message by message, without a worker."""

from __future__ import annotations

import random

import msgspec

from shared import headers, messages
from shared.files import Stream
from shared.messages import OutputEvent, TaskResult, Timing
from shared.views import OutputMessage

TASK = "task-0001"


class Said(msgspec.Struct, frozen=True):
    """A message, as a worker says it."""

    fields: dict[str, str]
    body: bytes

    @property
    def stored(self) -> OutputMessage:
        """The same, as a pool-manager tells it."""
        return OutputMessage(headers=self.fields, at_ms=1, data=self.body)


class Speaker:
    """Says things under one epoch, as the real one does."""

    def __init__(self, epoch: int = 1, attempt: int = 1) -> None:
        """Have said nothing."""
        self.place = {headers.EPOCH: str(epoch), headers.ATTEMPT: str(attempt)}
        self.number = 0
        self.written = {"stdout": b"", "stderr": b""}

    def say(self, event: str, body: bytes = b"", **fields: str) -> Said:
        """Say something."""
        about = {headers.EVENT: event, headers.NUMBER: str(self.number), **self.place, **fields}
        self.number += 1
        return Said(about, body)

    def event(self, name: str, **fields: object) -> Said:
        """Say that something happened."""
        return self.say(
            name, messages.encode(msgspec.convert({"task": TASK, **fields}, OutputEvent))
        )

    def write(self, data: bytes, stream: str = "stdout") -> Said:
        """Write something."""
        said = self.say(
            "output",
            data,
            **{
                headers.STREAM: stream,
                headers.OFFSET: str(sum(map(len, self.written.values()))),
                headers.STREAM_OFFSET: str(len(self.written[stream])),
            },
        )
        self.written[stream] += data
        return said

    def result(self, *, kept: int = 1000) -> TaskResult:
        """End."""
        out, err = (
            Stream(text=data[-kept:].decode(errors="replace"), size=len(data))
            for data in self.written.values()
        )
        return TaskResult(
            task=TASK,
            session="s",
            tenant="d",
            status="ok",
            stdout=out,
            stderr=err,
            epoch=int(self.place[headers.EPOCH]),
            attempt=int(self.place[headers.ATTEMPT]),
            timing=Timing(started_ms=1),
        )


def story(seed: int) -> tuple[list[Said], Speaker]:
    """Return what the workers of a task said: two attempts, some events, both streams; and the last worker."""
    dice = random.Random(seed)
    first, second = Speaker(1, 1), Speaker(3, 2)
    said = [first.event("started", worker="w1")]
    said += [first.write(b"lost%d" % n) for n in range(dice.randrange(4))]
    said += [second.event("recovered"), second.event("started", worker="w2")]
    for n in range(dice.randrange(1, 12)):
        data = bytes(dice.choice(b"abc\n") for _ in range(dice.randrange(1, 9)))
        said.append(second.write(data, dice.choice(["stdout", "stdout", "stderr"])))
        if n == 4:
            said.append(
                second.event(
                    "progress",
                    transfer={"path": "f", "direction": "out", "done_bytes": 1, "total_bytes": 2},
                )
            )
    return said, second
