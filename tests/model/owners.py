"""Steps of a worker that owns a session, or believes so: run, commit, release. Rules 2 to 5 of the protocol."""

from __future__ import annotations

from collections.abc import Callable

from tests.model.draft import Draft
from tests.model.records import WORKERS, Tasks, Truth
from tests.model.state import Late, Worker
from tests.model.turn import Turn

from shared.record import Hold

OWNING = ("claimed", "looking", "running", "refused", "releasing", "release-unsure", "released")
"""Steps at which a worker names (session, epoch) in its heartbeats."""
HOLDER = "holder"
"""Owner of a record that a worker keeps in mind: itself, whatever the model calls it by then."""


def boundary_of(turn: Turn, draft: Draft) -> Tasks:
    """Return what a workspace holds after it was restored by the record."""
    return draft.truth.boundary if draft.truth and turn.scenario.snapshots else ()


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
        if task is not None:
            workspace = worker.workspace
            if (
                not turn.scenario.snapshots
            ):  # what a cancelled task left behind is its user's affair
                workspace = tuple(done for done in workspace if draft.results[done] == "ok")
            draft.put(index, worker._replace(at="running", task=task, workspace=(*workspace, task)))
        else:
            draft.put(index, worker._replace(at="releasing", task=draft.accepted))

    turn.step(f"worker {index}: reads the inbox", look)


def _running(turn: Turn, index: int, worker: Worker) -> None:
    """The task has run: result and record in one batch."""
    hold, task = Hold(WORKERS[index], worker.epoch), worker.task
    open_end = turn.state.results[task] is None
    may_write = open_end and (worker.fresh or not turn.rules.commit_by_cas)

    def commit(draft: Draft) -> None:
        if not may_write:
            draft.put(index, worker._replace(at="refused", fresh=False))
            return
        if worker.fresh and not turn.rules.commit_is_one_batch:
            draft.settle(task, "ok")
            draft.put(index, worker._replace(at="half-committed"))
            return
        draft.commit(hold, task, worker.workspace, "ok")
        go_on(draft, index, worker, worker.workspace)

    verb = "commits result + record" if worker.fresh and open_end else "commit refused"
    turn.step(f"worker {index}: ran task {task}, {verb}", commit)
    if turn.may_lose_answer() and worker.fresh and open_end:

        def lose(draft: Draft) -> None:
            draft.spend("lost")
            draft.late = Late("commit", hold.owner, hold.epoch, task, worker.workspace)
            draft.put(index, worker._replace(at="refused", fresh=False))

        turn.fault(f"worker {index}: commit of task {task} gets NO ANSWER", lose)


def go_on(draft: Draft, index: int, worker: Worker, workspace: Tasks) -> None:
    """After a commit: the next task, or the end of the pod with its session."""
    if draft.truth and draft.truth.owner == WORKERS[index]:
        draft.put(index, Worker("looking", "", worker.epoch, True, -1, workspace))
    else:
        draft.fall(index)


def _half_committed(turn: Turn, index: int, worker: Worker) -> None:
    """Mutant: the result is there, the record follows."""

    def write(draft: Draft) -> None:
        hold = Hold(WORKERS[index], worker.epoch)
        truth = turn.book.complete(_truth(draft), hold, worker.task, worker.workspace, "ok")
        draft.write(truth, by=hold.owner)
        go_on(draft, index, worker, worker.workspace)

    turn.step(f"worker {index}: writes the record", write)


def _refused(turn: Turn, index: int, worker: Worker) -> None:
    """A write failed or went unanswered: re-read the record first."""
    mine = turn.owns(index, worker)

    def reread(draft: Draft) -> None:
        truth = draft.truth
        if truth and truth.state == "running" and not turn.rules.zombie_dies:
            after = Worker("looking", "", truth.epoch, True, -1, boundary_of(turn, draft))
            draft.put(index, after)
        elif mine:
            workspace = _restored(turn, draft, worker)
            draft.put(index, Worker("looking", "", worker.epoch, True, -1, workspace))
        else:
            draft.fall(index)

    found = "still mine: restores `boundary`" if mine else "StaleEpoch: ends its pod"
    turn.step(f"worker {index}: re-reads the record ({found})", reread)


def _restored(turn: Turn, draft: Draft, worker: Worker) -> Tasks:
    rule = turn.rules.refused_commit_restores
    if not turn.scenario.snapshots:
        return worker.workspace
    if worker.task < 0 or rule == "boundary":
        return boundary_of(turn, draft)
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
        after = Worker("looking", "", worker.epoch, True, -1, boundary_of(turn, draft))
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
            workspace = _restored(turn, draft, worker._replace(task=-1))
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
        workspace = boundary_of(turn, draft) if turn.scenario.snapshots else worker.workspace
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
    "half-committed": _half_committed,
    "refused": _refused,
    "releasing": _releasing,
    "leaving": _leaving,
    "release-unsure": _release_unsure,
    "released": _released,
}
