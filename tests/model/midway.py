"""Steps of a worker in the middle of a task: checkpoints, and what becomes of a task that was interrupted."""

from __future__ import annotations

from tests.model.draft import Draft
from tests.model.effects import Tasks, in_part
from tests.model.records import WORKERS
from tests.model.state import NOTHING, Late, Worker
from tests.model.turn import Turn

from shared.record import Hold


def go_on(draft: Draft, index: int, worker: Worker, workspace: Tasks) -> None:
    """After a commit: the next task, or the end of the pod with its session."""
    if draft.truth and draft.truth.owner == WORKERS[index]:
        draft.put(index, Worker("looking", "", worker.epoch, True, -1, workspace))
    else:
        draft.fall(index)


def interrupting(turn: Turn, index: int, worker: Worker) -> None:
    """The task's worker died in the middle, and it may not run twice."""
    hold, task = Hold(WORKERS[index], worker.epoch), worker.task

    def commit(draft: Draft) -> None:
        if not worker.fresh or draft.results[task] is not None:
            draft.put(index, worker._replace(at="refused", fresh=False))
            return
        draft.commit(hold, task, NOTHING, "interrupted")
        go_on(draft, index, worker, NOTHING)

    turn.step(f"worker {index}: task {task} was interrupted, commits that", commit)


def checkpoints(turn: Turn, index: int, worker: Worker) -> None:
    """In the middle of a task."""
    hold, task = Hold(WORKERS[index], worker.epoch), worker.task
    files = in_part(worker.workspace[:-1], task)

    def save(draft: Draft) -> None:
        draft.spend("checkpoint")
        if not worker.fresh and turn.rules.checkpoint_by_cas:
            draft.put(index, worker._replace(at="checkpoint-unsure", fresh=False))
            return
        draft.checkpoint(hold, task, files)

    turn.fault(f"worker {index}: checkpoint in task {task}", save)
    if turn.may_lose_answer() and worker.fresh:

        def lose(draft: Draft) -> None:
            draft.spend("checkpoint", "lost")
            draft.late = Late("checkpoint", hold.owner, hold.epoch, task, files)
            draft.put(index, worker._replace(at="checkpoint-unsure", fresh=False))

        turn.fault(f"worker {index}: checkpoint in task {task} gets NO ANSWER", lose)


def checkpoint_unsure(turn: Turn, index: int, worker: Worker) -> None:
    """A checkpoint failed or went unanswered: re-read the record first."""
    mine = turn.owns(index, worker)

    def reread(draft: Draft) -> None:
        if mine:
            draft.put(index, worker._replace(at="running", fresh=True))
        else:
            draft.fall(index)

    turn.step(f"worker {index}: re-reads the record after a checkpoint", reread)
