"""Records in the model: real values, changed by nothing but the real transitions, and made finite.

What no rule looks at is dropped from a record (clocks, history, words for people), and epochs count from the record's
own: 1 is the record's epoch, 2 the next, 0 any older one. `test_abstraction.py` shows that the transitions do not see
the difference.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec

from msgspec.structs import replace
from tests.model.rules import Broken, Rules, Scenario

from shared import transitions
from shared.errors import Conflict, ServiceError
from shared.messages import WorkspaceLost
from shared.record import Death, EndState, Hold, Origin, Record, is_mine

WORKERS = ("w0", "w1")
DEAD = "dead"
"""Owner of a record whose process is gone: a new worker in its place has a new identity."""
RESCUER = "checkpointer"

ORIGIN = Origin(session="session-1", tenant="acme", pool="p", lane="interactive", accepted_ms=1)
LOST = WorkspaceLost(cause="", epoch=0, at_ms=0)

Tasks = tuple[int, ...]
"""Tasks in the order in which their effects came into a workspace."""


class Truth:
    """A record and the snapshot that belongs to it (`boundary`). Equal ones are one object of their book.

    Without snapshots, `boundary` is what the client has been led to believe is in the workspace.
    """

    __slots__ = ("boundary", "epoch", "number", "owner", "position", "record", "state")

    def __init__(self, number: int, record: Record, boundary: Tasks) -> None:
        """Keep the fields that are read most at hand."""
        self.number = number
        self.record = record
        self.boundary = boundary
        self.state = record.state
        self.owner = record.owner
        self.epoch = record.epoch
        self.position = record.position

    def __lt__(self, other: Truth) -> bool:
        """Order by age, so that states can be ordered."""
        return self.number < other.number


P = ParamSpec("P")


Transition = Callable[Concatenate["Book", P], Truth]


def once(compute: Transition[P]) -> Transition[P]:
    """Compute each transition of a book once: they are pure. A refusal is remembered too."""
    name = compute.__name__

    @wraps(compute)
    def remembered(book: Book, /, *args: P.args, **kwargs: P.kwargs) -> Truth:
        key = (name, *args)
        known = book.memo.get(key)
        if known is None:
            try:
                known = compute(book, *args, **kwargs)
            except ServiceError as refusal:
                known = refusal
            book.memo[key] = known
        if isinstance(known, ServiceError):
            raise type(known)(str(known))
        return known

    return remembered


def tried(act: Callable[P, Truth], *args: P.args, **kwargs: P.kwargs) -> Truth | None:
    """Return the record to write, or None where the transitions forbid it now."""
    try:
        return act(*args, **kwargs)
    except Conflict:
        return None


def abstracted(record: Record, *, snapshots: bool, classes: bool = False) -> Record:
    """Return the record without what no rule looks at.

    Args:
        record: any record.
        snapshots: the workspace outlives its pod.
        classes: sessions wait in more urgent lanes and less urgent ones; else all in the most urgent.
    """
    waits = record.state in ("queued", "rescuing")
    return replace(
        record,
        node=None,
        lane=record.lane if classes and waits else "recovery",
        keep=False,
        attempt=0,
        death_task=record.death_task if record.deaths else "",
        interruptions=(),
        lost=LOST if record.lost and not snapshots else None,
        losses=0,
        last_loss=None,
        tasks_done=0,
        end_reason="",
        traceparent="",
        tracestate="",
    )


class Book:
    """The truths of one exploration, and the real transitions between them."""

    def __init__(self, rules: Rules, scenario: Scenario) -> None:
        """Mutate transitions as `rules` say; keep what `scenario` looks at."""
        self._rules = rules
        self._snapshots = scenario.snapshots
        self._classes = scenario.classes
        self._keep = scenario.keep
        self._close_at = scenario.close_at
        self._known: dict[tuple[Record, Tasks], Truth] = {}
        self.memo: dict[tuple[object, ...], Truth | ServiceError] = {}

    def _truth(self, record: Record, boundary: Tasks) -> Truth:
        abstract = abstracted(record, snapshots=self._snapshots, classes=self._classes)
        key = (abstract, boundary)
        if key not in self._known:
            self._known[key] = Truth(len(self._known), abstract, boundary)
        return self._known[key]

    # --- identities and epochs: what the model renames, which is no change of the record -------------------------
    @once
    def renamed(self, truth: Truth, old: str, new: str) -> Truth:
        """Return the truth with another name for one owner."""
        if truth.owner != old:
            return truth
        return self._truth(replace(truth.record, owner=new), truth.boundary)

    @once
    def swapped(self, truth: Truth) -> Truth:
        """Return the truth with the two workers' names exchanged."""
        if truth.owner not in WORKERS:
            return truth
        other = WORKERS[truth.owner == WORKERS[0]]
        return self._truth(replace(truth.record, owner=other), truth.boundary)

    @once
    def at_epoch(self, truth: Truth, epoch: int) -> Truth:
        """Return the truth with its epoch counted anew."""
        return self._truth(replace(truth.record, epoch=epoch), truth.boundary)

    # --- the real transitions --------------------------------------------------------------------------------------
    @once
    def create(self, owner: str) -> Truth:
        """Create the record as its first owner."""
        return self._truth(transitions.create(ORIGIN, owner=owner, node="n", now_ms=0), ())

    @once
    def claim(self, truth: Truth, owner: str) -> Truth:
        """Own what is queued."""
        record = transitions.claim(truth.record, owner=owner, node="n", now_ms=0)
        if not self._rules.claim_grows_epoch:
            record = replace(record, epoch=truth.epoch)
        return self._truth(record, truth.boundary)

    @once
    def complete(self, truth: Truth, hold: Hold, task: int, workspace: Tasks, result: str) -> Truth:
        """Commit a task; `workspace` holds its effects as the last ones."""
        ok = result == "ok"
        closes = (task == 0 and not self._keep) or (ok and task == self._close_at)
        record = transitions.complete(
            truth.record,
            hold,
            inbox_seq=task or None,
            then="close" if closes else "keep",
            now_ms=0,
        )
        if self._snapshots:
            return self._truth(record, workspace if ok else truth.boundary)
        before = workspace[:-1]
        believed: Tasks = () if truth.record.lost else truth.boundary
        if truth.record.lost and before:
            raise Broken(f"P10 task {task} says that the workspace is lost; it holds {before}")
        if believed != before:
            raise Broken(f"P10 task {task} finds {before} in silence, its client knows {believed}")
        return self._truth(record, workspace if ok else before)

    @once
    def release(self, truth: Truth, hold: Hold, position: int) -> Truth:
        """Give the session up."""
        kept = position if self._rules.release_moves_position else 0
        record = transitions.release(truth.record, hold, position=kept, now_ms=0)
        return self._truth(record, truth.boundary)

    @once
    def take_back(self, truth: Truth, before: Truth) -> Truth:
        """Own again what was just released."""
        return self._truth(transitions.take_back(truth.record, before.record), truth.boundary)

    @once
    def wake(self, truth: Truth, lane: str) -> Truth:
        """Let an idle session wait for a worker, or a waiting one wait in a more urgent lane."""
        return self._truth(transitions.wake(truth.record, lane=lane), truth.boundary)

    @once
    def revoke(self, truth: Truth, died: bool, in_task: bool, task: str) -> Truth:
        """Give the owner up."""
        death = Death(cause="", process_died=died, in_task=in_task, task=task)
        record = transitions.revoke(truth.record, death=death, now_ms=0)
        if not self._rules.revoke_grows_epoch:
            record = replace(record, epoch=truth.epoch)
        return self._truth(record, truth.boundary)

    @once
    def rescue(self, truth: Truth) -> Truth:
        """Own, as a checkpointer, what is queued."""
        record = transitions.rescue(truth.record, owner=RESCUER, now_ms=0)
        return self._truth(record, truth.boundary)

    @once
    def rescued(self, truth: Truth, hold: Hold) -> Truth:
        """Let it wait again."""
        return self._truth(transitions.rescued(truth.record, hold), truth.boundary)

    @once
    def end(self, truth: Truth, state: EndState) -> Truth:
        """End what nobody runs."""
        record = transitions.end(truth.record, state=state, reason="", now_ms=0)
        return self._truth(record, truth.boundary)

    @once
    def end_unborn(self, state: EndState) -> Truth:
        """End what nobody created."""
        return self._truth(transitions.ended_unborn(ORIGIN, state=state, reason="", now_ms=0), ())


def holds(truth: Truth | None, hold: Hold) -> bool:
    """Return whether the record names this owner under this epoch."""
    return truth is not None and is_mine(truth.record, hold)
