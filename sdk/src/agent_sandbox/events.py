"""What happens to a running task, as its reader is told: started, output, recovered, missing, progress."""

from __future__ import annotations

from typing import Literal, TypedDict

import msgspec

from shared.messages import OutputEvent, Timing

StreamName = Literal["stdout", "stderr"]


class Happened(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all events."""

    attempt: int
    epoch: int = 0
    position: str = ""
    """Behind this event: pass it as `after` to go on from here, now or later, anywhere."""


class Here(TypedDict):
    """The fields of `Happened`."""

    epoch: int
    attempt: int
    position: str


class Started(Happened, frozen=True, kw_only=True):
    """The first instruction of user code runs."""

    worker: str = ""
    at_ms: float = 0
    """Worker's wall clock."""
    pool: str = ""
    timing: Timing | None = None
    """How and when the task came to its worker."""


class Output(Happened, frozen=True, kw_only=True):
    """User code wrote something."""

    stream: StreamName
    offset: int
    """Bytes of this attempt's output on this stream before this piece."""
    data: bytes


class Recovered(Happened, frozen=True, kw_only=True):
    """The session goes on after a loss: of its worker in mid-task (`event.interruption`; the output starts anew where
    the task is run again; `event.recovery` says what that cost), of files that were not saved (`event.workspace_lost`),
    or of both."""

    event: OutputEvent


class Missing(Happened, frozen=True, kw_only=True):
    """Output that can't be shown: it was over the limit, or is stored nowhere any more."""

    stream: StreamName | None
    size: int | None
    """Bytes; None: not known."""


class Progress(Happened, frozen=True, kw_only=True):
    """A file by reference is on its way into the workspace (`in`) or out of it (`out`), or has arrived."""

    path: str
    direction: Literal["in", "out"]
    done_bytes: int
    total_bytes: int


Event = Progress | Started | Output | Recovered | Missing
