"""One state of the model.

A reader keeps no sequence number but one bit, `fresh`: the record has not changed since it was read. That is all that a
compare-and-set can tell. A lost answer is a *late* write: it left, nobody heard of it, and it lands later (if its
compare-and-set still holds) or never.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from tests.model.effects import Tasks
from tests.model.records import Truth
from tests.model.rules import Budget, Scenario

ABSENT, WAITING, FLYING, GONE = range(4)
"""A queue message: not there, in its lane, delivered and not acked, acked."""

STRAY = "T-"
"""A token whose slot was acked by somebody else: its ack hits nothing."""


class Worker(NamedTuple):
    """A worker. `at` is the step that it takes next."""

    at: str = "warm"
    message: str = ""
    """Queue message that it holds: P0, P1 (plain, by shard), T0, T1 (tokens)."""
    epoch: int = 0
    fresh: bool = False
    task: int = -1
    """Task that it runs; while releasing, the position that it writes."""
    workspace: Tasks = ()
    held: Truth | None = None
    """The record as it was before the release."""


WARM = Worker()
NOTHING: Tasks = (-99,)
"""A workspace that was not restored yet."""

LateKind = Literal["create", "claim", "commit", "cancel", "release", "take_back", "checkpoint"]


class Late(NamedTuple):
    """A write that left and got no answer."""

    kind: LateKind
    owner: str
    epoch: int
    task: int = -1
    workspace: Tasks = ()
    held: Truth | None = None


class Orphan(NamedTuple):
    """Files of a dead pod, and what it was in the middle of (-1: nothing)."""

    workspace: Tasks
    task: int


class Rescuer(NamedTuple):
    """A checkpointer in the middle of a rescue."""

    epoch: int
    fresh: bool


class State(NamedTuple):
    """Everything that the protocol's future depends on."""

    truth: Truth | None
    results: tuple[str | None, ...]
    """By task: 0 is the plain first one, 1… the inbox, whose sequence is the task's number."""
    accepted: int
    """Inbox entries so far."""
    copies: tuple[tuple[int, int], ...]
    """The plain message in two queue shards: where it is, deliveries."""
    tokens: tuple[int, int]
    workers: tuple[Worker, Worker]
    rescuer: Rescuer | None
    hint: bool
    """A wake-up is on its way to a pool-manager."""
    expired: bool
    promised: tuple[int, ...]
    """Tasks of which somebody was told that they are cancelled."""
    budget: Budget
    token_sent: bool
    late: Late | None
    orphan: Orphan | None
    due: tuple[int, Tasks] | None
    """What was rescued of a task and not gone on with yet. Seen by no rule."""
    deaths: int
    """Owners that died of the task in hand, or may have. Seen by no rule: it measures them."""


def initial(scenario: Scenario) -> State:
    """Return the state after the first task was accepted by one shard."""
    return State(
        truth=None,
        results=(None,) * (scenario.tasks + 1),
        accepted=0,
        copies=((WAITING, 0), (ABSENT, 0)),
        tokens=(ABSENT, ABSENT),
        workers=(WARM, WARM),
        rescuer=None,
        hint=False,
        expired=False,
        promised=(),
        budget=scenario.budget,
        token_sent=False,
        late=None,
        orphan=None,
        due=None,
        deaths=0,
    )


def stale(worker: Worker) -> Worker:
    """Return a worker whose view of the record is old."""
    held = None if worker.at == "released" else worker.held
    return worker._replace(fresh=False, held=held)


def without(worker: Worker, message: str, forgotten: str) -> Worker:
    """Return a worker after somebody has acked a message, which it may hold."""
    if worker.message != message:
        return worker
    if worker.at == "claimed":
        return worker._replace(message="")
    return worker._replace(message=forgotten) if forgotten else worker
