"""The draft in which a step changes a state."""

from __future__ import annotations

from tests.model.effects import Done, Tasks, in_part, whole
from tests.model.records import DEAD, DEAD_IDLE, RESCUER, WORKERS, Book, Truth
from tests.model.rules import Broken, Rules, Scenario
from tests.model.state import (
    ABSENT,
    FLYING,
    GONE,
    NOTHING,
    STRAY,
    WAITING,
    WARM,
    Orphan,
    Rescuer,
    State,
    Worker,
    stale,
    without,
)  # fmt: skip

from shared import limits
from shared.record import EndState, Hold


class Draft:
    """A state that is being changed by one step."""

    __slots__ = (*State._fields, "book", "keeps_workspaces", "on_interrupt", "rules", "snapshots")

    def __init__(
        self, state: State, book: Book, rules: Rules, scenario: Scenario, *, keeps_workspaces: bool
    ) -> None:
        """Start from `state`."""
        self.on_interrupt = scenario.on_interrupt
        self.snapshots = scenario.snapshots
        (
            self.truth, self.results, self.accepted, self.copies, self.tokens, self.workers, self.rescuer,
            self.hint, self.expired, self.promised, self.budget, self.token_sent, self.late,
            self.orphan, self.due, self.deaths,
        ) = state  # fmt: skip
        self.book = book
        self.rules = rules
        self.keeps_workspaces = keeps_workspaces

    # --- what steps do ---------------------------------------------------------------------------------------------
    def spend(self, *kinds: str) -> None:
        """Take faults from the budget."""
        left = {kind: getattr(self.budget, kind) - 1 for kind in kinds}
        self.budget = self.budget._replace(**left)

    def put(self, index: int, worker: Worker) -> None:
        """Give a worker its next step."""
        first, second = self.workers
        self.workers = (first, worker) if index else (worker, second)

    def write(self, truth: Truth, by: str = "") -> None:
        """Write the record: everybody else's view turns stale, and no late write can land any more."""
        by_cas = {"commit": self.rules.commit_by_cas, "checkpoint": self.rules.checkpoint_by_cas}
        self.truth = truth
        self.token_sent = False
        first, second = self.workers
        self.workers = (
            first if by == WORKERS[0] or not first.fresh else stale(first),
            second if by == WORKERS[1] or not second.fresh else stale(second),
        )
        if self.rescuer and by != RESCUER:
            self.rescuer = Rescuer(self.rescuer.epoch, False)
        if self.late and by_cas.get(self.late.kind, True):
            self.late = None

    def settle(self, task: int, result: str) -> None:
        """Write a task's result."""
        known = self.results[task]
        if known is not None:
            raise Broken(f"P2 result of task {task} written twice ({known}, then {result})")
        if self.deaths and task == self.rest_of_inbox():
            self.deaths = 1 if self.truth and self.truth.owner == DEAD else 0
        if self.due is not None and self.due[0] == task:
            if result == "interrupted" and ~task not in self.due[1]:
                raise Broken(f"P12 task {task} ends as interrupted, nothing of it had begun")
            self.due = None
        self.results = (*self.results[:task], result, *self.results[task + 1 :])

    def commit(
        self,
        hold: Hold,
        task: int,
        workspace: Tasks,
        result: str,
        *,
        answered: bool = True,
        saved: bool = True,
    ) -> None:
        """Write result and record in one batch, as the owner `hold`, who knows if it was answered."""
        truth = self.truth
        assert truth is not None
        if not (truth.owner == hold.owner and truth.epoch == hold.epoch):
            raise Broken(
                f"P3 commit of task {task} accepted from epoch {hold.epoch}, record is at {truth.epoch}"
            )
        self.settle(task, result)
        if result == "interrupted":
            completed = self.book.interrupt(truth, hold, task)
        else:
            resumes = self.on_interrupt == "resume"
            found = whole(workspace[:-1], self.results, resumes=resumes)
            if resumes and found[-1:] == (~task,):
                found = found[:-1]
            saves = saved and self.snapshots
            done = Done(task, workspace, found, result, saves)
            completed = self.book.complete(truth, hold, done)
        self.write(completed, by=hold.owner if answered else "")
        if hold.owner == DEAD and self.truth:  # it died in this task, and in no later one
            self.truth, self.deaths = self.book.renamed(self.truth, DEAD, DEAD_IDLE), 0

    def checkpoint(self, hold: Hold, task: int, workspace: Tasks, *, answered: bool = True) -> None:
        """Write the record with a snapshot from the middle of a task, as the owner `hold`."""
        truth = self.truth
        assert truth is not None
        if not (truth.owner == hold.owner and truth.epoch == hold.epoch):
            raise Broken(
                f"P3 checkpoint accepted from epoch {hold.epoch}, record is at {truth.epoch}"
            )
        written = self.book.checkpoint(truth, hold, task, workspace)
        self.write(written, by=hold.owner if answered else "")

    def end(self, state: EndState, task: int) -> None:
        """Write an end from outside in one batch with its task's result."""
        truth = self.truth
        if state == "poison":
            self.check_poison()
        ended = self.book.end(truth, state) if truth else self.book.end_unborn(state)
        self.write(ended)
        if self.rules.end_is_one_batch:
            self.settle(task, state)

    def check_poison(self) -> None:
        """Raise Broken where nothing died often enough to be poison."""
        if self.deaths < limits.DEATHS_MAX:
            raise Broken(f"P8 poison after {self.deaths} deaths, {limits.DEATHS_MAX} are wanted")

    def promise(self, task: int) -> None:
        """Answer a cancel with `cancelled`."""
        self.promised = tuple(sorted({*self.promised, task}))

    def fall(self, index: int) -> None:
        """A worker's process ends; a new pod with a new identity takes its place."""
        worker = self.workers[index]
        self.put(index, WARM)
        if self.truth and self.truth.owner == WORKERS[index]:
            self.orphan = self._orphan_of(worker) if self.truth.epoch == worker.epoch else None
            idle = self._had_begun_nothing(WORKERS[index], worker)
            self.truth = self.book.renamed(self.truth, WORKERS[index], DEAD_IDLE if idle else DEAD)
            self.deaths += not idle
        if self.late and self.late.owner == WORKERS[index]:
            self.late = self.late._replace(owner=DEAD)

    def _had_begun_nothing(self, name: str, worker: Worker) -> bool:
        """Return whether an owner that dies has done a task, and knows of no other; a late write of it is its own."""
        truth, has_late = self.truth, self.late is not None and self.late.owner == name
        knows = truth is not None and truth.epoch == worker.epoch and not has_late
        return knows and worker.at == "looking" and worker.workspace not in ((), NOTHING)

    def _orphan_of(self, worker: Worker) -> Orphan | None:
        """Return the files of a worker that dies, if a checkpointer may save them."""
        if not self.budget.rescue or worker.at == "refused":
            return None  # one whose write was refused has said that its files are of no use
        if worker.at in ("claimed", "looking") and self.results[0] is None:
            return (
                None  # of a workspace in which nothing was ever done nobody says that it is whole
            )
        if worker.workspace == NOTHING:
            return Orphan((), -1) if not self.rules.rescue_of_whole_only else None
        if worker.at in ("running", "checkpoint-unsure"):
            return Orphan(in_part(worker.workspace[:-1], worker.task), worker.task)
        return Orphan(worker.workspace, -1)

    def rest_of_inbox(self) -> int | None:
        """Return the first task without a result, as its next owner finds it; None if there is none."""
        if self.results[0] is None:
            return 0
        assert self.truth is not None
        for task in range(self.truth.position + 1, self.accepted + 1):
            if self.results[task] is None or not self.rules.done_tasks_are_skipped:
                return task
        return None

    def move(self, message: str, to: int, deliveries: int | None = None) -> None:
        """Move a queue message."""
        index = int(message[1])
        if message[0] == "T":
            self.tokens = (self.tokens[0], to) if index else (to, self.tokens[1])
            return
        known = self.copies[index][1] if deliveries is None else deliveries
        slot = (to, 0 if to == GONE else known)
        self.copies = (self.copies[0], slot) if index else (slot, self.copies[1])

    def ack(self, message: str) -> None:
        """Remove a message, whoever asks: a zombie's ack is accepted."""
        if message in ("", STRAY):
            return
        self.move(message, GONE if message[0] == "P" else ABSENT)
        forgotten = "" if message[0] == "P" else STRAY
        first, second = self.workers
        self.workers = (without(first, message, forgotten), without(second, message, forgotten))

    def give_back(self, message: str) -> None:
        """Nak: the message may be delivered again."""
        if message in ("", STRAY):
            return
        index = int(message[1])
        where = self.copies[index][0] if message[0] == "P" else self.tokens[index]
        if where == FLYING:
            self.move(message, WAITING)

    # --- from draft to state -------------------------------------------------------------------------------------------
    def freeze(self) -> State:
        """Return the canonical form of what the draft has become."""
        self._count_epochs_from_the_record()
        self._order_tokens()
        if not self.keeps_workspaces:
            self._forget_workspaces()
        self._order_workers()
        return State(
            self.truth, self.results, self.accepted, self.copies, self.tokens, self.workers, self.rescuer,
            self.hint, self.expired, self.promised, self.budget, self.token_sent, self.late,
            self.orphan, self.due, self.deaths,
        )  # fmt: skip

    def _count_epochs_from_the_record(self) -> None:
        truth = self.truth
        if truth is None or truth.epoch == 1:
            return
        base = truth.epoch - 1
        self.truth = self.book.at_epoch(truth, 1)
        first, second = (
            worker if worker.at == "warm" else worker._replace(epoch=_relative(worker.epoch, base))
            for worker in self.workers
        )
        self.workers = (first, second)
        if self.rescuer:
            self.rescuer = Rescuer(_relative(self.rescuer.epoch, base), self.rescuer.fresh)
        if self.late:
            self.late = self.late._replace(epoch=_relative(self.late.epoch, base))

    def _order_tokens(self) -> None:
        """Token slots are alike."""
        if self.tokens[0] >= self.tokens[1]:
            return
        self.tokens = (self.tokens[1], self.tokens[0])
        other = {"T0": "T1", "T1": "T0"}
        first, second = (
            worker._replace(message=other[worker.message]) if worker.message in other else worker
            for worker in self.workers
        )
        self.workers = (first, second)

    def _forget_workspaces(self) -> None:
        """A workspace matters only to a commit that can still succeed."""
        for index in (0, 1):
            worker = self.workers[index]
            if worker.workspace not in ((), NOTHING) and not self._can_commit(index, worker):
                self.put(index, worker._replace(workspace=NOTHING))

    def _can_commit(self, index: int, worker: Worker) -> bool:
        """Return whether it is the owner, who writes the same batch again where that was refused."""
        truth = self.truth
        owns = truth is not None and (WORKERS[index], worker.epoch) == (truth.owner, truth.epoch)
        return owns and worker.at in (
            "claimed",
            "looking",
            "running",
            "refused",
            "checkpoint-unsure",
        )

    def _order_workers(self) -> None:
        """Workers are alike."""
        first, second = self.workers
        if first < second:
            return
        owner = self.truth.owner if self.truth else None
        sender = self.late.owner if self.late else None
        one, two = WORKERS
        if first == second and (owner == two, sender == two) <= (owner == one, sender == one):
            return
        self.workers = (second, first)
        if owner in WORKERS and self.truth:
            self.truth = self.book.swapped(self.truth)
        if sender in WORKERS and self.late:
            self.late = self.late._replace(owner=two if sender == one else one)


def _relative(epoch: int, base: int) -> int:
    return epoch - base if 1 <= epoch - base <= 2 else 0
