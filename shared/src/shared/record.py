"""The session's record: the authoritative state of one session, changed only by compare-and-set.

The rules by which it changes stand in `shared.transitions`.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from shared.errors import Conflict, StaleEpoch
from shared.messages import Interruption, Message, WorkspaceLost
from shared.workspace import Base, Latest, SnapshotRef

State = Literal[
    "queued", "running", "waiting", "rescuing", "forking", "idle",
    "closed", "rejected", "expired", "cancelled", "poison",
]  # fmt: skip
EndState = Literal["rejected", "expired", "cancelled", "poison"]
ENDED: frozenset[str] = frozenset({"closed", "rejected", "expired", "cancelled", "poison"})
OWNED: frozenset[str] = frozenset({"running", "rescuing"})


class Record(Message, frozen=True, kw_only=True, omit_defaults=True):
    """The authoritative state of one session."""

    session: str
    tenant: str
    pool: str
    state: State
    lane: str
    """Class in which the session waits for a worker (`recovery` after a loss)."""
    client_lane: str
    """Class that the client asked for."""
    keep: bool
    """False: closed with its first task (a one-shot)."""
    accepted_ms: int
    """The queue stream's clock when the first task was accepted."""
    epoch: int = 0
    """Fencing token: grows with each claim and each revocation."""
    owner: str | None = None
    """Worker, or checkpointer while `rescuing`."""
    node: str | None = None
    claimed_ms: int = 0
    first_done: bool = False
    """The first task has its result."""
    position: int = 0
    """Inbox sequence up to which every task has its result."""
    deaths: int = 0
    """Deaths of the worker process in the present task, its node alive. Progress resets it."""
    death_task: str = ""
    """The task that `deaths` and `interruptions` belong to, where it is known."""
    attempt: int = 0
    """Claims since the last result."""
    interruptions: tuple[Interruption, ...] = ()
    """Losses since the last result, oldest first, bounded."""
    lost: WorkspaceLost | None = None
    """A loss of the workspace that the client has not been told yet."""
    losses: int = 0
    last_loss: WorkspaceLost | None = None
    boundary: SnapshotRef | None = None
    """The snapshot that holds what the last completed task left behind. None: nothing was ever saved."""
    latest: Latest | None = None
    """A newer one, from the middle of a task."""
    checkpoint_stale_ms: int = 0
    """Since when completed tasks have effects that no snapshot holds, wall clock; 0: `boundary` holds them all."""
    files_in_use: bool = False
    """In a pool on volumes: a former owner may still write files, since nobody saw its end. Who claims the session waits
    until that is out of the question, and says so by taking this back."""
    rescue_until_ms: int = 0
    """`rescuing` until then, wall clock of the pool-manager that gave it up."""
    rescue_pod: str = ""
    """The dead pod whose files are rescued, or were last: any pool-manager can see to it."""
    base: Base | None = None
    """Of a fork: where it comes from."""
    tasks_done: int = 0
    last_done_ms: int = 0
    wake_at_ms: int = 0
    """`waiting` until then."""
    ended_ms: int = 0
    end_reason: str = ""
    replay_of: str = ""
    """The first task is a replay of this one."""
    traceparent: str = ""
    """W3C trace context of the first task, as its publisher gave it: whoever owns the session later goes on with it. No
    rule looks at it."""
    tracestate: str = ""


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """What the subject and the queue message say about a session's first task."""

    session: str
    tenant: str
    pool: str
    lane: str
    accepted_ms: int
    replay_of: str = ""
    traceparent: str = ""
    tracestate: str = ""


class Death(msgspec.Struct, frozen=True, kw_only=True):
    """Why an owner is given up."""

    cause: str
    process_died: bool
    """The worker process died while its node lived: counts towards poison, if it died in a task."""
    in_task: bool = True
    """False only where no task can have been touched: the process is gone, and the inbox, read *after* that, held
    nothing without a result. Such a death is held against no task."""
    task: str = ""
    """The first task without a result, as read after the death. Empty: not known; taken for the same as before."""
    silent_ms: int | None = None
    unsaved_bytes: int | None = None
    """As `Interruption` has it."""
    may_write: bool = False
    """Its user code may go on for a while, on a volume that others mount as well: nobody saw the end of all of it."""


class Rescue(msgspec.Struct, frozen=True, kw_only=True):
    """Who saves the workspace of a pod that died."""

    owner: str
    """The checkpointer of its node."""
    node: str
    until_ms: int
    """Then it is given up in its turn, wall clock of the pool-manager."""


class Hold(msgspec.Struct, frozen=True):
    """What an owner believes: that it owns the session under this epoch."""

    owner: str
    epoch: int


def is_mine(record: Record | None, hold: Hold) -> bool:
    """Return whether `hold` still holds the session."""
    return (
        record is not None
        and record.state in OWNED
        and Hold(record.owner or "", record.epoch) == hold
    )


def check_mine(record: Record, hold: Hold, act: str, state: State = "running") -> None:
    """Refuse what an owner does that is none.

    Raises:
        StaleEpoch: somebody else owns the session now.
        Conflict: the record is not in the state in which an owner does that.
    """
    if not is_mine(record, hold):
        raise StaleEpoch(
            f"session {record.session}: {hold.owner} acted under epoch {hold.epoch}, "
            f"the record is {record.state} of {record.owner} at epoch {record.epoch}"
        )
    check_state(record, act, state)


def check_state(record: Record, act: str, *allowed: str) -> None:
    """Refuse what the record's state does not allow.

    Raises:
        Conflict: names the session, the act and the states.
    """
    if record.state not in allowed:
        raise Conflict(
            f"session {record.session}: {act} needs {' or '.join(allowed)}, the record is {record.state}"
        )
