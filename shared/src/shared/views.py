"""What pool-managers answer to `ask.<tenant>.…`: sessions and pools as clients see them."""

from __future__ import annotations

import msgspec

from shared.errors import ErrorInfo
from shared.messages import Message
from shared.record import Record


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
    silent_ms: int | None = None
    """Since the worker was last heard; None where no worker has the session."""
    error: ErrorInfo | None = None


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
