"""Steps of a worker that owns a session, or believes so: run, commit, release. Rules 2 to 5 of the protocol."""

from __future__ import annotations

from collections.abc import Callable

from tests.model.draft import Draft
from tests.model.effects import Done, Tasks
from tests.model.midway import checkpoint_unsure, checkpoints, go_on, interrupting
from tests.model.records import WORKERS, Truth
from tests.model.rules import Broken
from tests.model.state import NOTHING, Late, Worker
from tests.model.turn import Turn

from shared.heads import is_interrupted
from shared.record import Hold

OWNING = (
    "claimed", "looking", "running", "interrupting", "checkpoint-unsure", "refused", "releasing",
    "release-unsure", "released",
)  # fmt: skip
"""Steps at which a worker names (session, epoch) in its heartbeats."""
HOLDER = "holder"
"""Owner of a record that a worker keeps in mind: itself, whatever the model calls it by then."""


def unrestored(turn: Turn) -> Tasks:
    """Return the workspace of a worker that has just claimed: it is filled before a task runs."""
    return NOTHING if turn.scenario.snapshots else ()


def _truth(draft: Draft) -> Truth:
    assert draft.truth is not None
    return draft.truth


def _looking(turn: Turn, index: int, worker: Worker) -> None:
    """Read the inbox from the leader."""

    def look(draft: Draft) -> None:
        if draft.truth is None:
            draft.put(index, worker._replace(at="refused", fresh=False, task=-1))
            return
        task = draft.rest_of_inbox()
        if task is None:
            draft.put(index, worker._replace(at="releasing", task=draft.accepted))
            return
        workspace = worker.workspace
        if workspace == NOTHING:
            if turn.scenario.on_interrupt == "fail" and is_interrupted(
                draft.truth.record, str(task)
            ):
                draft.put(index, worker._replace(at="interrupting", task=task))
                return
            workspace, truth = _restored(turn, draft, task)
            if truth is not draft.truth:
                if not worker.fresh:
                    draft.put(index, worker._replace(at="refused", fresh=False, task=-1))
                    return
                draft.write(truth, by=WORKERS[index])
        if not turn.scenario.snapshots:  # what a cancelled task left behind is its user's affair
            workspace = tuple(
                done for done in workspace if done >= 0 and draft.results[done] == "ok"
            )
        draft.put(index, worker._replace(at="running", task=task, workspace=(*workspace, task)))

    turn.step(f"worker {index}: reads the inbox", look)


def _restored(turn: Turn, draft: Draft, task: int) -> tuple[Tasks, Truth]:
    """Return what a task begins with, and the record that says what is not in that."""
    rule = turn.scenario.on_interrupt
    if rule == "rerun" and not turn.rules.rerun_begins_at_boundary:
        rule = "resume"
    workspace, truth = turn.book.restored(_truth(draft), task, rule)
    if draft.due is not None and draft.due[0] == task and rule == turn.scenario.on_interrupt:
        if workspace != draft.due[1]:
            raise Broken(f"P12 {draft.due[1]} was rescued, task {task} finds {workspace}")
        draft.due = None
    return workspace, truth


def _running(turn: Turn, index: int, worker: Worker) -> None:
    """The task has run: result and record in one batch."""
    hold, task = Hold(WORKERS[index], worker.epoch), worker.task
    open_end = turn.state.results[task] is None
    may_write = open_end and (worker.fresh or not turn.rules.commit_by_cas)
    verb = "commits result + record" if worker.fresh and open_end else "commit refused"
    for saved in (True, False) if turn.scenario.relaxed else (True,):

        def commit(draft: Draft, saved: bool = saved) -> None:
            if not may_write:
                draft.put(index, worker._replace(at="refused", fresh=False))
                return
            if worker.fresh and not turn.rules.commit_is_one_batch:
                draft.settle(task, "ok")
                draft.put(index, worker._replace(at="half-committed"))
                return
            draft.commit(hold, task, worker.workspace, "ok", saved=saved)
            go_on(draft, index, worker, worker.workspace)

        unsaved = "" if saved else ", its files unsaved"
        turn.step(f"worker {index}: ran task {task}, {verb}{unsaved}", commit)
    if turn.may_lose_answer() and worker.fresh and open_end:

        def lose(draft: Draft) -> None:
            draft.spend("lost")
            draft.late = Late("commit", hold.owner, hold.epoch, task, worker.workspace)
            draft.put(index, worker._replace(at="refused", fresh=False))

        turn.fault(f"worker {index}: commit of task {task} gets NO ANSWER", lose)
    if turn.state.budget.checkpoint:
        checkpoints(turn, index, worker)


def _half_committed(turn: Turn, index: int, worker: Worker) -> None:
    """Mutant: the result is there, the record follows."""

    def write(draft: Draft) -> None:
        hold = Hold(WORKERS[index], worker.epoch)
        done = Done(worker.task, worker.workspace, worker.workspace[:-1], "ok", True)
        truth = turn.book.complete(_truth(draft), hold, done)
        draft.write(truth, by=hold.owner)
        go_on(draft, index, worker, worker.workspace)

    turn.step(f"worker {index}: writes the record", write)


def _refused(turn: Turn, index: int, worker: Worker) -> None:
    """A write failed or went unanswered: re-read the record first."""
    mine = turn.owns(index, worker)

    def reread(draft: Draft) -> None:
        truth = draft.truth
        if truth and truth.state == "running" and not turn.rules.zombie_dies:
            after = Worker("looking", "", truth.epoch, True, -1, unrestored(turn))
            draft.put(index, after)
        elif mine and worker.task >= 0 and draft.results[worker.task] is None:
            draft.put(index, worker._replace(at="running", fresh=True))  # the same batch again
        elif mine:
            workspace = _gone_back(turn, worker)
            draft.put(index, Worker("looking", "", worker.epoch, True, -1, workspace))
        else:
            draft.fall(index)

    found = "still mine" if mine else "StaleEpoch: ends its pod"
    turn.step(f"worker {index}: re-reads the record ({found})", reread)


def _gone_back(turn: Turn, worker: Worker) -> Tasks:
    """Return the workspace after a write that came too late: what the re-read record says."""
    rule = turn.rules.refused_commit_restores
    if not turn.scenario.snapshots:
        return worker.workspace
    if worker.task < 0 or rule == "boundary":
        return NOTHING
    if rule == "nothing":
        return worker.workspace
    return tuple(task for task in worker.workspace if task != worker.task)


def _releasing(turn: Turn, index: int, worker: Worker) -> None:
    """Idle by compare-and-set; `task` is the position to write."""
    hold = Hold(WORKERS[index], worker.epoch)

    def release(draft: Draft) -> None:
        if not worker.fresh:
            draft.put(index, worker._replace(at="refused", fresh=False, task=-1))
            return
        if not turn.rules.last_look_after_release:
            _look_before_release(turn, draft, index, worker)
            return
        before = _truth(draft)
        draft.write(turn.book.release(before, hold, worker.task), by=hold.owner)
        draft.put(index, worker._replace(at="released", task=-1, held=_to_hold(turn, index)))

    turn.step(
        f"worker {index}: " + ("releases (idle)" if worker.fresh else "release refused"), release
    )
    if turn.may_lose_answer() and worker.fresh:

        def lose(draft: Draft) -> None:
            draft.spend("lost")
            draft.late = Late("release", hold.owner, hold.epoch, worker.task)
            held = _to_hold(turn, index)
            draft.put(index, worker._replace(at="release-unsure", fresh=False, held=held))

        turn.fault(f"worker {index}: release gets NO ANSWER", lose)


def _look_before_release(turn: Turn, draft: Draft, index: int, worker: Worker) -> None:
    if draft.rest_of_inbox() is not None:
        after = Worker("looking", "", worker.epoch, True, -1, unrestored(turn))
        draft.put(index, after)
    else:
        draft.put(index, worker._replace(at="leaving", fresh=True))


def _leaving(turn: Turn, index: int, worker: Worker) -> None:
    """Mutant: its last look is behind it."""

    def leave(draft: Draft) -> None:
        hold = Hold(WORKERS[index], worker.epoch)
        if worker.fresh:
            released = turn.book.release(_truth(draft), hold, worker.task)
            draft.write(released, by=hold.owner)
        draft.fall(index)

    turn.step(f"worker {index}: releases after its last look", leave)


def _release_unsure(turn: Turn, index: int, worker: Worker) -> None:
    """No answer to the release: read whether it landed."""

    def read(draft: Draft) -> None:
        truth = _truth(draft)
        if truth.state == "idle" and truth.epoch == worker.epoch:
            draft.put(index, worker._replace(at="released", fresh=True, task=-1))
        elif turn.owns(index, worker):
            workspace = _gone_back(turn, worker._replace(task=-1))
            draft.put(index, Worker("looking", "", worker.epoch, True, -1, workspace))
        else:
            draft.fall(index)

    turn.step(f"worker {index}: reads whether it released", read)


def _released(turn: Turn, index: int, worker: Worker) -> None:
    """Look at the inbox once more; take the session back where something came."""
    truth, hold = turn.state.truth, Hold(WORKERS[index], worker.epoch)
    assert truth is not None
    more = turn.state.accepted > truth.position
    takes_back = turn.rules.last_look and worker.fresh and more

    def look(draft: Draft) -> None:
        if not takes_back:
            draft.fall(index)
            return
        draft.write(take_back(turn, draft, hold, worker.held), by=hold.owner)
        keeps = turn.scenario.relaxed or not turn.scenario.snapshots
        workspace = worker.workspace if keeps else NOTHING
        draft.put(index, Worker("looking", "", worker.epoch, True, -1, workspace))

    what = "takes the session back" if worker.fresh and more else "leaves"
    turn.step(f"worker {index}: last look at the inbox: {what}", look)
    if turn.may_lose_answer() and worker.fresh and more:

        def lose(draft: Draft) -> None:
            draft.spend("lost")
            draft.late = Late("take_back", hold.owner, hold.epoch, held=worker.held)
            draft.put(index, worker._replace(at="refused", fresh=False, held=None))

        turn.fault(f"worker {index}: CAS back gets NO ANSWER", lose)


def _to_hold(turn: Turn, index: int) -> Truth:
    """Return the record before a release, for whoever may take it back; its owner is its holder."""
    assert turn.state.truth is not None
    return turn.book.renamed(turn.state.truth, WORKERS[index], HOLDER)


def take_back(turn: Turn, draft: Draft, hold: Hold, held: Truth | None) -> Truth:
    """Return the record as it was before its release; epochs are counted from the record's own."""
    assert held is not None
    before = turn.book.renamed(turn.book.at_epoch(held, hold.epoch), HOLDER, hold.owner)
    return turn.book.take_back(_truth(draft), before)


OWNER_STEPS: dict[str, Callable[[Turn, int, Worker], None]] = {
    "looking": _looking,
    "running": _running,
    "interrupting": interrupting,
    "checkpoint-unsure": checkpoint_unsure,
    "half-committed": _half_committed,
    "refused": _refused,
    "releasing": _releasing,
    "leaving": _leaving,
    "release-unsure": _release_unsure,
    "released": _released,
}
