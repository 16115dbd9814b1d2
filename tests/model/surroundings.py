"""Steps of what is no service of ours: clients, the queue, time, and the store where late writes land."""

from __future__ import annotations

from tests.model.draft import Draft
from tests.model.owners import take_back
from tests.model.records import DEAD
from tests.model.state import ABSENT, FLYING, WAITING, Late
from tests.model.turn import Turn

from shared.record import Hold


def steps(turn: Turn) -> None:
    """Offer what may happen around the services."""
    _clients(turn)
    _queue(turn)
    if turn.state.late:
        _late(turn, turn.state.late)


def _clients(turn: Turn) -> None:
    state, scenario = turn.state, turn.scenario

    def accept(draft: Draft) -> None:
        draft.accepted += 1
        draft.hint = True

    def copy(draft: Draft) -> None:
        draft.spend("copy")
        draft.move("P1", WAITING)

    def expire(draft: Draft) -> None:
        draft.expired = True

    if state.accepted < scenario.tasks and (state.truth or scenario.early_follow_ups):
        turn.fault(f"client: inbox task {state.accepted + 1} accepted", accept)
    if state.budget.copy and state.copies[1][0] == ABSENT:
        turn.fault("publisher: retry of the first task, other shard", copy)
    if scenario.expiry and not state.expired:
        turn.fault("time: the plain message's deadline passes", expire)


def _queue(turn: Turn) -> None:
    for slot in (0, 1):
        waiting = []
        if turn.state.copies[slot][0] == FLYING and turn.rules.redelivery:
            waiting.append(f"P{slot}")
        if turn.state.tokens[slot] == FLYING:
            waiting.append(f"T{slot}")
        for message in waiting:

            def deliver(draft: Draft, message: str = message) -> None:
                draft.move(message, WAITING)

            turn.step(f"queue: redelivery of {message}", deliver)


def _late(turn: Turn, late: Late) -> None:
    """A write without an answer lands, or never does. Whoever sent it does not know."""

    def land(draft: Draft) -> None:
        draft.late = None
        _land(turn, draft, late)
        if late.owner == DEAD and late.kind in ("create", "claim", "take_back"):
            draft.deaths += 1

    def vanish(draft: Draft) -> None:
        draft.late = None

    turn.step(f"store: late {late.kind} lands", land)
    turn.step(f"store: the unanswered {late.kind} never arrives", vanish)


def _land(turn: Turn, draft: Draft, late: Late) -> None:
    truth, book, hold = draft.truth, turn.book, Hold(late.owner, late.epoch)
    if late.kind == "create":
        assert truth is None
        draft.write(book.create(late.owner))
        return
    assert truth is not None
    match late.kind:
        case "claim":
            draft.write(book.claim(truth, late.owner))
        case "release":
            draft.write(book.release(truth, hold, late.task))
        case "take_back":
            draft.write(take_back(turn, draft, hold, late.held))
        case "commit" | "cancel":
            if draft.results[late.task] is None or not turn.rules.result_is_created:
                result = "ok" if late.kind == "commit" else "stopped"
                draft.commit(hold, late.task, late.workspace, result, answered=False)
        case "checkpoint":
            draft.checkpoint(hold, late.task, late.workspace, answered=False)
