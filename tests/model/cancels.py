"""Cancels, and the checkpointer's rescue: who else may end a task or own a session."""

from __future__ import annotations

from tests.model.draft import Draft
from tests.model.effects import in_part
from tests.model.midway import go_on
from tests.model.records import DEAD, RESCUER, WORKERS, tried
from tests.model.state import Late, Worker
from tests.model.turn import Turn

from shared.record import ENDED, Hold


def steps(turn: Turn) -> None:
    """Offer a cancel of each open task, and the steps of a rescue."""
    _rescue(turn)
    if turn.state.budget.cancel:
        for task in range(turn.state.accepted + 1):
            _cancel(turn, task)


def _cancel(turn: Turn, task: int) -> None:
    """End a task at whatever stage it is: what nobody runs directly, what a worker runs by asking it."""
    truth = turn.state.truth

    def put(draft: Draft) -> None:
        draft.spend("cancel")
        draft.settle(task, "cancelled")
        draft.promise(task)

    if task and not turn.rules.result_is_created:
        turn.fault(f"cancel: puts a result for task {task}", put)
        return
    if turn.state.results[task] is not None:
        return
    if task == 0 and (truth is None or tried(turn.book.end, truth, "cancelled")):

        def end(draft: Draft) -> None:
            draft.spend("cancel")
            draft.end("cancelled", 0)
            if turn.rules.end_is_one_batch:
                draft.promise(0)

        turn.fault("cancel: ends the session, which nobody runs", end)
    elif task and (truth is None or truth.state not in ENDED):
        turn.fault(f"cancel: creates result `cancelled` of task {task}", put)
    for index in (0, 1):
        worker = turn.state.workers[index]
        if worker.at == "running" and worker.task == task:
            _ask_owner(turn, index, worker)


def _ask_owner(turn: Turn, index: int, worker: Worker) -> None:
    hold, task = Hold(WORKERS[index], worker.epoch), worker.task
    refused = worker._replace(at="refused", fresh=False)

    def ask(draft: Draft) -> None:
        draft.spend("cancel")
        if not turn.rules.cancel_answers_after_commit:
            draft.promise(task)
        if not worker.fresh:
            draft.put(index, refused)
            return
        workspace = in_part(worker.workspace[:-1], task)
        draft.commit(hold, task, workspace, "stopped")
        draft.promise(task)
        go_on(draft, index, worker, workspace)

    turn.fault(f"cancel: asks worker {index}, which ends task {task}", ask)
    if turn.may_lose_answer() and worker.fresh:

        def lose(draft: Draft) -> None:
            draft.spend("cancel", "lost")
            files = in_part(worker.workspace[:-1], task)
            draft.late = Late("cancel", hold.owner, hold.epoch, task, files)
            draft.put(index, refused)

        turn.fault(f"cancel: asks worker {index}; its batch gets NO ANSWER", lose)


def _rescue(turn: Turn) -> None:
    """A checkpointer saves the files of a dead pod under the epoch that it was given with the revocation."""
    state, truth, rescuer = turn.state, turn.state.truth, turn.state.rescuer
    if rescuer is None:
        return

    def finish(draft: Draft) -> None:
        draft.rescuer = None
        if not rescuer.fresh or draft.orphan is None:
            return
        assert truth is not None
        (files, begun), draft.orphan = draft.orphan, None
        rescued = turn.book.rescued(truth, Hold(RESCUER, rescuer.epoch), files, begun == -1)
        task = draft.rest_of_inbox()
        if task is not None and begun in (-1, task):
            draft.due = (task, files)
        draft.write(rescued, by=RESCUER)

    def crash(draft: Draft) -> None:
        draft.spend("crash")
        draft.rescuer = None
        if draft.truth:
            draft.truth = turn.book.renamed(draft.truth, RESCUER, DEAD)

    what = "commits what it saved, releases" if rescuer.fresh else "finds a newer epoch, stops"
    turn.step(f"checkpointer: {what}", finish)
    if state.budget.crash:
        turn.fault("CRASH of the checkpointer", crash)
