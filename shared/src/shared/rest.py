"""Bodies of the HTTP API that the gateway speaks and the SDK reads; the OpenAPI document is made from them.

A task's own body is `shared.task.Task`, its result `shared.messages.TaskResult`, as on the wire without HTTP.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from shared.files import FileEntry
from shared.messages import Interruption, StartPath, TaskResult, Timing, WorkspaceLost
from shared.recovery import Recovery

MeasuredBy = Literal["caller", "servers", "worker"]
"""`caller`: whoever took the call, on its own clock, until it heard the task start. `servers`: that one is gone; the
streams' stamps of the acceptance and of the event `started` instead. `worker`: the event is gone, too; the worker's clock
against the stream's."""


class Body(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of all bodies."""


class Tti(Body, frozen=True, kw_only=True, omit_defaults=True):
    """Time to interactive of one task: the caller's call until the first instruction of user code.

    `queue_wait_ms`, `claim_ms` and `start_ms` are differences of the worker's stamps (the first one against the
    servers' clock). Together they are at most `tti_ms`, which is taken on the clock of whoever called and has the way of
    the call to the queue and of the event back besides.
    """

    tti_ms: float
    path: StartPath
    queue_wait_ms: float
    """Accepted by the stream -> handed to the worker that claimed it."""
    claim_ms: float
    """Handed over -> the record was this worker's."""
    start_ms: float
    """Claimed -> first instruction of user code."""
    measured_by: MeasuredBy


class TaskView(Body, frozen=True, kw_only=True, omit_defaults=True):
    """One task: where it stands, and its result once there is one. Answer to each create and show."""

    task: str
    session: str
    state: Literal["accepted", "started", "ended"]
    """`accepted`: in the queue or in a worker's hands, user code was not seen to run."""
    pool: str = ""
    tti: Tti | None = None
    """None: not started yet, or it never ran user code."""
    result: TaskResult | None = None
    links: dict[str, str] = {}
    """`self`, `result`, `output`, `stream`, `cancel`, `session`: paths on this API."""


class TtiRow(Body, frozen=True, kw_only=True, omit_defaults=True):
    """Statistics of one pool and path over the window."""

    pool: str
    path: StartPath
    count: int
    last_ms: float
    p50_ms: float
    p90_ms: float
    p99_ms: float
    max_ms: float


class TtiAnswer(Body, frozen=True, kw_only=True, omit_defaults=True):
    """What `GET /v1/tti` answers: what this gateway measured."""

    gateway: str
    window_s: float
    pools: tuple[TtiRow, ...]


class StreamEvent(Body, frozen=True, kw_only=True, omit_defaults=True):
    """One event of a task's stream; the same over server-sent events (`data:`) and WebSockets."""

    event: Literal["accepted", "started", "output", "recovered", "missing", "progress", "result"]
    id: str
    """Position: pass it as `Last-Event-ID` or `after` to go on behind this event, on any gateway."""
    task: str
    epoch: int = 0
    attempt: int = 0
    stream: Literal["stdout", "stderr"] | None = None
    """Of `output` and `missing`."""
    offset: int = 0
    """Of `output`: bytes of this attempt's output on this stream before this piece."""
    text: str | None = None
    """Of `output`, where it is UTF-8."""
    data: bytes | None = None
    """Of `output`, where it is not; base64."""
    size: int | None = None
    """Of `missing`: bytes; None: not known."""
    worker: str = ""
    at_ms: float = 0
    """Of `started`: the worker's wall clock, milliseconds since 1970."""
    pool: str = ""
    """Of `started`."""
    timing: Timing | None = None
    """Of `started`: how and when the task came to its worker."""
    interruption: Interruption | None = None
    recovery: Recovery | None = None
    workspace_lost: WorkspaceLost | None = None
    path: str = ""
    """Of `progress`: which file."""
    direction: Literal["in", "out"] | None = None
    done_bytes: int = 0
    total_bytes: int = 0
    result: TaskResult | None = None
    view: TaskView | None = None
    """Of `accepted`, the first event of a stream that a create is answered with."""


class Listing(Body, frozen=True, kw_only=True, omit_defaults=True):
    """Entries of a directory of a workspace."""

    path: str
    entries: tuple[FileEntry, ...] = ()
    truncated: bool = False


class Problem(Body, frozen=True, kw_only=True, omit_defaults=True):
    """An error, as RFC 9457 has it (`application/problem+json`)."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    """Stable, machine-readable name (`shared.errors`)."""
    definite: bool = True
    """True: it surely did not happen. False: it may have happened; ask again only under the same id."""
    field: str = ""
    """Which part of the request is wrong, where one is."""
    limit: str = ""
    """Which bound was passed, where one was: its name in `docs/limits.md`, and its value."""
    task: str = ""
    """Id under which it may have happened, where there is one."""
