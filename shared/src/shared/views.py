"""What clients ask under `ask.<tenant>.…`, and what pool-managers answer: sessions, pools, dead letters, objects."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from shared import limits
from shared.errors import ErrorInfo
from shared.files import ObjectId
from shared.letters import DeadLetter
from shared.messages import Message
from shared.record import Record


class ListAsk(Message, frozen=True, kw_only=True, omit_defaults=True):
    """Ask for a page of sessions."""

    limit: Annotated[int, Meta(ge=1, le=limits.ASK_ITEMS_MAX)] = 100
    after: str | None = None
    """Last session id of the page before."""
    state: str | None = None
    pool: str | None = None


class ShowAsk(Message, frozen=True, kw_only=True, omit_defaults=True):
    """Ask for one session."""

    session: str


class ObjectDropAsk(Message, frozen=True, kw_only=True, omit_defaults=True):
    """Ask to remove objects for good."""

    objects: Annotated[tuple[ObjectId, ...], Meta(max_length=limits.FILES_MAX)]


class SessionRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One session in a listing."""

    session: str
    pool: str
    state: str
    keep: bool = False
    worker: str | None = None
    node: str | None = None
    epoch: int = 0
    accepted_ms: int = 0
    tasks_done: int = 0
    last_done_ms: int = 0
    losses: int = 0
    ended_ms: int = 0
    end_reason: str = ""


class SessionsAnswer(Message, frozen=True, kw_only=True, omit_defaults=True):
    """A page of sessions, by session id. Of the ended ones only the newest are listed; all can be shown."""

    sessions: tuple[SessionRow, ...] = ()
    next: str | None = None
    """Pass it as `after` for the next page; None: this was the last."""
    error: ErrorInfo | None = None


class SessionAnswer(Message, frozen=True, kw_only=True, omit_defaults=True):
    """One session: its whole record, as the leader has it, and what its worker's heartbeat says."""

    record: Record | None = None
    """None: there is no such session (yet: its first task may wait in a lane)."""
    isolation: str = ""
    """Class that the sandbox really has; empty where no worker has the session."""
    worker_state: str = ""
    task: str | None = None
    """Task that runs now."""
    reason: str = ""
    """Why the worker restores or saves for so long, or cannot take checkpoints."""
    reason_ms: int = 0
    """Since when, its wall clock."""
    silent_ms: int | None = None
    """Since the worker was last heard; None where no worker has the session."""
    error: ErrorInfo | None = None


class TasksAsk(Message, frozen=True, kw_only=True, omit_defaults=True):
    """Ask for a page of one session's tasks."""

    session: str
    limit: Annotated[int, Meta(ge=1, le=limits.ASK_ITEMS_MAX)] = 100
    after: str | None = None
    """`next` of the page before."""
    state: Literal["waiting", "running", "ended"] | None = None


class TaskRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One task in a listing."""

    task: str
    state: Literal["waiting", "running", "ended"]
    kind: str = ""
    """Of ended ones."""
    status: str = ""
    """Of ended ones: its result's."""
    reason: str = ""
    accepted_ms: int = 0
    ended_ms: int = 0


class TasksAnswer(Message, frozen=True, kw_only=True, omit_defaults=True):
    """A page of a session's tasks: those that ended, in the order in which they did; then what runs; then what waits, in
    the order in which it was accepted. It may be shorter than asked, even empty, and not be the last."""

    tasks: tuple[TaskRow, ...] = ()
    next: str | None = None
    """Pass it as `after` for the next page; None: this was the last."""
    error: ErrorInfo | None = None


class OutputMark(msgspec.Struct, frozen=True, order=True):
    """Which of a task's messages: they come in this order."""

    epoch: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    attempt: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    number: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    """Messages that the attempt sent before it."""


class OutputAsk(Message, frozen=True, kw_only=True, omit_defaults=True):
    """Ask for what is stored of a task's output and events, in order."""

    session: str
    task: str
    after: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    """`next` of the answer before; 0: from the start."""
    since: OutputMark | None = None
    """Leave out what comes before this message; a few of them may come all the same."""
    limit: Annotated[int, Meta(ge=1, le=limits.ASK_ITEMS_MAX)] | None = None
    """Messages of one answer at the most, one more perhaps; None: as many as fit."""


class OutputMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One stored message: as it was heard live."""

    headers: dict[str, str]
    at_ms: int
    """The stream's clock."""
    data: bytes = b""
    """Base64 in JSON."""


class OutputAnswer(Message, frozen=True, kw_only=True, omit_defaults=True):
    """Some of what is stored, bounded in bytes."""

    messages: tuple[OutputMessage, ...] = ()
    next: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    """Pass it as `after` for what comes behind."""
    more: bool = False
    """There was more at the time of the answer."""
    error: ErrorInfo | None = None


class StockView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the stock of a pool with a promise is made from."""

    explained: tuple[str, ...] = ()
    """In words, the most important first."""
    rate_per_s: float = 0.0
    """Activations of the interactive class, per second."""
    dispersion: float = 1.0
    """Variance of their number while a pod starts, over that of arrivals at random."""
    start_s: float = 0.0
    """Mean of the observed start-ups."""
    z: float = 0.0
    """Standard deviations above the expected that are held."""
    cold_share: float = 0.0
    """Share that may wait for a pod."""
    reached_cold_share: float = 0.0
    """Share of about the last hour that did."""
    manager: str = ""
    """Pool-manager that decides."""


class PoolView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a pool is."""

    pool: str
    stock: int
    """Wanted warm pods; 0: on demand."""
    warm: int = 0
    starting: int = 0
    bound: int = 0
    """Pods that have a session."""
    queued: int = 0
    """Sessions that want a worker again (new ones wait in the lanes)."""
    pods_max: int = 0
    isolation: str = ""
    """Class that the declaration asks for."""
    classes: dict[str, int] = {}
    """Class that sandboxes really have -> warm and bound pods."""
    reason: str = ""
    """Why the stock is not full, where something stands in the way."""
    policy: StockView | None = None
    """What its stock is made from; None: it is a number."""
    wait_s: float | None = None
    """About how long a new session would wait for its pod now, seconds; None: nothing was seen yet that tells it."""


class NodeView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a node is."""

    node: str
    alive: bool
    pods: int = 0
    capacity: int = 0
    draining: bool = False
    isolation: dict[str, str] = {}
    """Class -> empty if the node has it, else why not."""


class PoolsAnswer(Message, frozen=True, kw_only=True, omit_defaults=True):
    """All pools and nodes."""

    pools: tuple[PoolView, ...] = ()
    nodes: tuple[NodeView, ...] = ()
    managers: tuple[str, ...] = ()
    """Pool-managers that live."""
    error: ErrorInfo | None = None


class LettersAsk(Message, frozen=True, kw_only=True, omit_defaults=True):
    """Ask for a page of dead letters, the newest first."""

    limit: Annotated[int, Meta(ge=1, le=limits.ASK_ITEMS_MAX)] = 100
    before: Annotated[int, Meta(ge=1)] | None = None
    """Number of the last letter of the page before."""


class LetterAsk(Message, frozen=True, kw_only=True, omit_defaults=True):
    """Ask for one dead letter, or for its removal."""

    number: Annotated[int, Meta(ge=1, le=2**63 - 1)]


class LetterRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One dead letter in a listing."""

    number: int
    """By which it is shown, replayed and dropped."""
    buried_ms: int
    """The stream's clock when it became one, milliseconds since 1970."""
    letter: DeadLetter


class LettersAnswer(Message, frozen=True, kw_only=True, omit_defaults=True):
    """A page of dead letters, the newest first."""

    letters: tuple[LetterRow, ...] = ()
    next: int | None = None
    """Pass it as `before` for the next page; None: this was the last."""
    error: ErrorInfo | None = None


class LetterAnswer(Message, frozen=True, kw_only=True, omit_defaults=True):
    """One dead letter with its body."""

    row: LetterRow | None = None
    """None: there is no such letter (any more)."""
    body: bytes = b""
    """As it was published; base64 in JSON."""
    error: ErrorInfo | None = None


class LetterDropped(Message, frozen=True, kw_only=True, omit_defaults=True):
    """Answer to the removal of a dead letter."""

    dropped: bool = False
    """False: it was not there."""
    error: ErrorInfo | None = None
