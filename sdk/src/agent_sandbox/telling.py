"""Events as they are told to programs, line by line: over HTTP, and by `logs --json`."""

from __future__ import annotations

import msgspec

from agent_sandbox.events import Event, Missing, Output, Progress, Recovered, Started
from agent_sandbox.positions import Position
from shared.messages import TaskResult
from shared.rest import StreamEvent


def told(event: Event, task: str) -> StreamEvent:
    """Return an event as a stream tells it."""
    made = StreamEvent(
        event="missing", id=event.position, task=task, epoch=event.epoch, attempt=event.attempt
    )
    change = msgspec.structs.replace
    match event:
        case Output():
            text, data = _text_or_bytes(event.data)
            return change(
                made, event="output", stream=event.stream, offset=event.offset, text=text, data=data
            )
        case Started():
            return change(
                made,
                event="started",
                worker=event.worker,
                at_ms=event.at_ms,
                pool=event.pool,
                timing=event.timing,
            )
        case Recovered():
            return change(
                made,
                event="recovered",
                worker=event.event.worker,
                interruption=event.event.interruption,
                recovery=event.event.recovery,
                workspace_lost=event.event.workspace_lost,
            )
        case Progress():
            return change(
                made,
                event="progress",
                path=event.path,
                direction=event.direction,
                done_bytes=event.done_bytes,
                total_bytes=event.total_bytes,
            )
        case Missing():
            return change(made, stream=event.stream, size=event.size)


def told_result(result: TaskResult) -> StreamEvent:
    """Return the last event of a stream."""
    return StreamEvent(
        event="result",
        id=Position(ended=True).text(result.task),
        task=result.task,
        epoch=result.epoch,
        attempt=result.attempt,
        result=result,
    )


def _text_or_bytes(data: bytes) -> tuple[str | None, bytes | None]:
    try:
        return data.decode(), None
    except UnicodeDecodeError:
        return None, data
