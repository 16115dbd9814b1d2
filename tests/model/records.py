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
from tests.model.effects import Done, Tasks
from tests.model.rules import Broken, Rules, Scenario

from shared import heads, transitions
from shared.errors import Conflict, ServiceError
from shared.messages import Interruption, WorkspaceLost
from shared.pools import OnInterrupt
from shared.record import Death, EndState, Hold, Origin, Record, Rescue, is_mine
from shared.workspace import SnapshotRef

WORKERS = ("w0", "w1")
DEAD, DEAD_IDLE = "dead", "dead-idle"
"""Owner of a record whose process is gone: a new worker in its place has a new identity. The second one had done a task, and
had begun no other."""
RESCUER = "checkpointer"

ORIGIN = Origin(session="session-1", tenant="acme", pool="p", lane="interactive", accepted_ms=1)
LOST = WorkspaceLost(cause="", epoch=0, at_ms=0)
HIT = Interruption(cause="", epoch=0, worker="", revoked_ms=0)


class Truth:
    """A record and what its snapshots hold. Equal ones are one object of their book."""

    __slots__ = (
        "boundary", "epoch", "known", "latest", "number", "owner", "position", "record", "state",
    )  # fmt: skip

    def __init__(
        self, number: int, record: Record, known: Tasks, contents: dict[str, Tasks]
    ) -> None:
        """Keep the fields that are read most at hand; `known` is what the client believes to be in the workspace."""
        self.number = number
        self.record = record
        self.known = known
        self.boundary = () if record.boundary is None else contents[record.boundary.id]
        self.latest = None if record.latest is None else contents[record.latest.snapshot.id]
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
    """Return the record to write; None: it is forbidden now."""
    try:
        return act(*args, **kwargs)
    except Conflict:
        return None


def abstracted(record: Record, *, classes: bool = False) -> Record:
    """Return the record without what no rule looks at; without `classes` all wait in the most urgent lane."""
    waits = record.state in ("queued", "rescuing")
    return replace(
        record,
        node=None,
        lane=record.lane if classes and waits else "recovery",
        keep=False,
        attempt=0,
        interruptions=(HIT,) if record.interruptions else (),
        latest=None if record.latest is None else replace(record.latest, attempt=0, epoch=0),
        checkpoint_stale_ms=min(record.checkpoint_stale_ms, 1),
        rescue_pod="",
        files_in_use=False,
        lost=LOST if record.lost else None,
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
        self._classes = scenario.classes
        self._keep = scenario.keep
        self._close_at = scenario.close_at
        self._resumes = scenario.on_interrupt == "resume"
        self._known: dict[tuple[Record, Tasks], Truth] = {}
        self._contents: dict[str, Tasks] = {}
        self._snapshots_of: dict[Tasks, SnapshotRef] = {}
        self.memo: dict[tuple[object, ...], Truth | ServiceError] = {}

    def _truth(self, record: Record, known: Tasks) -> Truth:
        key = (abstracted(record, classes=self._classes), known)
        if key not in self._known:
            self._known[key] = Truth(len(self._known), *key, self._contents)
        return self._known[key]

    def _snapshot(self, workspace: Tasks) -> SnapshotRef:
        """Save a workspace: equal ones are one snapshot."""
        if workspace not in self._snapshots_of:
            ref = SnapshotRef(id=f"{len(self._contents):064x}", pack="acme/session-1/p", at_ms=1)
            self._snapshots_of[workspace] = ref
            self._contents[ref.id] = workspace
        return self._snapshots_of[workspace]

    # --- identities and epochs: what the model renames, which is no change of the record -------------------------
    @once
    def renamed(self, truth: Truth, old: str, new: str) -> Truth:
        """Return the truth with another name for one owner."""
        if truth.owner != old:
            return truth
        return self._truth(replace(truth.record, owner=new), truth.known)

    @once
    def swapped(self, truth: Truth) -> Truth:
        """Return the truth with the two workers' names exchanged."""
        if truth.owner not in WORKERS:
            return truth
        other = WORKERS[truth.owner == WORKERS[0]]
        return self._truth(replace(truth.record, owner=other), truth.known)

    @once
    def at_epoch(self, truth: Truth, epoch: int) -> Truth:
        """Return the truth with its epoch counted anew."""
        return self._truth(replace(truth.record, epoch=epoch), truth.known)

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
        return self._truth(record, truth.known)

    @once
    def complete(self, truth: Truth, hold: Hold, done: Done) -> Truth:
        """Commit a task."""
        task, ok = done.task, done.result == "ok"
        closes = (task == 0 and not self._keep) or (ok and task == self._close_at)
        record = transitions.complete(
            truth.record,
            hold,
            inbox_seq=task or None,
            then="close" if closes else "keep",
            now_ms=1,
        )
        if done.saves:
            record = heads.saved(record, self._snapshot(done.workspace))
        known = self._told(truth, task, done.found)
        return self._truth(record, (*known, task) if ok else known)

    def _told(self, truth: Truth, task: int, found: Tasks) -> Tasks:
        """Check that the client knows what a task finds in its workspace."""
        lost = truth.record.lost is not None
        known = truth.boundary if lost else truth.known
        known = tuple(done for done in known if done >= 0)
        if lost and found != known:
            raise Broken(f"P10 task {task} says that the workspace is lost; it holds {found}")
        if known != found:
            raise Broken(f"P10 task {task} finds {found} in silence, its client knows {known}")
        return known

    @once
    def interrupt(self, truth: Truth, hold: Hold, task: int) -> Truth:
        """Commit that a task was interrupted, with what it did in part as far as that is saved."""
        head = heads.head_for(truth.record, str(task), "fail")
        record = transitions.complete(
            truth.record, hold, inbox_seq=task or None,
            then="keep" if task or self._keep else "close", now_ms=1,
        )  # fmt: skip
        record = (
            heads.saved(record, head.snapshot)
            if head.which == "latest"
            else heads.untouched(record, truth.record)
        )
        lost = truth.record.lost is not None
        return self._truth(record, truth.boundary if lost else truth.known)

    @once
    def checkpoint(self, truth: Truth, hold: Hold, task: int, workspace: Tasks) -> Truth:
        """Save a workspace in the middle of a task."""
        snapshot = self._snapshot(workspace)
        record = heads.checkpoint(truth.record, hold, snapshot=snapshot, task=str(task))
        return self._truth(record, truth.known)

    def restored(self, truth: Truth, task: int, rule: OnInterrupt) -> tuple[Tasks, Truth]:
        """Return what a workspace holds before a task runs, and the record that says what is not in it."""
        head = heads.head_for(truth.record, str(task), rule)
        files = () if head.snapshot is None else self._contents[head.snapshot.id]
        return files, truth if head.which == "latest" else self.without_unsaved(truth)

    @once
    def without_unsaved(self, truth: Truth) -> Truth:
        """Say what no snapshot holds."""
        return self._truth(heads.lose_unsaved(truth.record, cause="", now_ms=1), truth.known)

    @once
    def release(self, truth: Truth, hold: Hold, position: int) -> Truth:
        """Give the session up."""
        kept = position if self._rules.release_moves_position else 0
        record = transitions.release(truth.record, hold, position=kept, now_ms=1)
        return self._truth(record, truth.known)

    @once
    def take_back(self, truth: Truth, before: Truth) -> Truth:
        """Own again what was just released."""
        return self._truth(transitions.take_back(truth.record, before.record), truth.known)

    @once
    def wake(self, truth: Truth, lane: str) -> Truth:
        """Let an idle session wait for a worker, or a waiting one wait in a more urgent lane."""
        return self._truth(transitions.wake(truth.record, lane=lane), truth.known)

    @once
    def revoke(self, truth: Truth, died: bool, in_task: bool, task: str, rescues: bool) -> Truth:
        """Give the owner up, perhaps to a checkpointer."""
        death = Death(cause="", process_died=died, in_task=in_task, task=task)
        rescue = Rescue(owner=RESCUER, node="n", until_ms=0) if rescues else None
        record = transitions.revoke(truth.record, death=death, now_ms=1, rescue=rescue)
        if not self._rules.revoke_grows_epoch:
            record = replace(record, epoch=truth.epoch)
        return self._truth(record, truth.known)

    @once
    def rescued(self, truth: Truth, hold: Hold, workspace: Tasks, whole: bool) -> Truth:
        """Let it wait again, with what was saved."""
        before, snapshot = truth.record, self._snapshot(workspace)
        boundary = whole and self._rules.rescued_whole_is_boundary
        record = transitions.rescued(before, hold, snapshot=snapshot, whole=boundary)
        if whole and not boundary:
            record = replace(record, interruptions=())
        elif whole and not self._rules.rescued_whole_is_no_interruption:
            record = replace(record, interruptions=before.interruptions)
        return self._truth(record, truth.known)

    @once
    def end(self, truth: Truth, state: EndState) -> Truth:
        """End what nobody runs."""
        record = transitions.end(truth.record, state=state, reason="", now_ms=0)
        return self._truth(record, truth.known)

    @once
    def end_unborn(self, state: EndState) -> Truth:
        """End what nobody created."""
        return self._truth(transitions.ended_unborn(ORIGIN, state=state, reason="", now_ms=0), ())


def holds(truth: Truth | None, hold: Hold) -> bool:
    """Return whether the record names this owner under this epoch."""
    return truth is not None and is_mine(truth.record, hold)
