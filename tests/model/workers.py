"""Steps of a worker that looks for a session: pull, create or claim, ack. Rule 1 of the protocol."""

from __future__ import annotations

from collections.abc import Callable

from tests.model.draft import Draft
from tests.model.owners import OWNER_STEPS, unrestored
from tests.model.records import WORKERS, tried
from tests.model.rules import Broken
from tests.model.state import FLYING, GONE, WAITING, WARM, Late, Worker
from tests.model.turn import Turn


def steps(turn: Turn) -> None:
    """Offer what both workers may do next."""
    for index in (0, 1):
        worker = turn.state.workers[index]
        if worker.at != "warm" and turn.state.budget.crash:

            def crash(draft: Draft, index: int = index) -> None:
                draft.spend("crash")
                draft.fall(index)

            turn.fault(f"CRASH of worker {index} ({worker.at})", crash)
        CLAIM_STEPS.get(worker.at, OWNER_STEPS.get(worker.at, _no_steps))(turn, index, worker)


def _no_steps(turn: Turn, index: int, worker: Worker) -> None:
    raise AssertionError(f"worker {index} is at {worker.at!r}: no such step")


def _warm(turn: Turn, index: int, worker: Worker) -> None:
    """Pull whatever waits in a lane."""
    for slot in (0, 1):
        where, deliveries = turn.state.copies[slot]
        if where == WAITING:
            count = 0 if turn.rules.deliveries_are_no_deaths else deliveries + 1
            most = turn.scenario.deliveries_max

            def pull_plain(
                draft: Draft, message: str = f"P{slot}", count: int = min(count, most)
            ) -> None:
                draft.move(message, FLYING if turn.rules.ack_after_claim else GONE, count)
                draft.put(index, Worker(at="pulled", message=message))

            turn.step(f"worker {index}: pulls plain P{slot}", pull_plain)
        if turn.state.tokens[slot] == WAITING:

            def pull_token(draft: Draft, message: str = f"T{slot}") -> None:
                draft.move(message, FLYING)
                draft.put(index, Worker(at="pulled", message=message))

            turn.step(f"worker {index}: pulls token T{slot}", pull_token)


def _pulled(turn: Turn, index: int, worker: Worker) -> None:
    """Create the record of a plain message; read it where there is one, or for a token."""
    truth = turn.state.truth
    if worker.message[0] == "P" and (truth is None or not turn.rules.create_expects_none):
        _create(turn, index, worker)
        return

    def read(draft: Draft) -> None:
        claimed = tried(turn.book.claim, truth, WORKERS[index]) if truth else None
        if claimed is None:
            draft.put(index, Worker(at="dropping", message=worker.message))
        else:
            draft.put(
                index,
                Worker(at="claiming", message=worker.message, epoch=claimed.epoch, fresh=True),
            )

    turn.step(f"worker {index}: reads the record", read)


def _create(turn: Turn, index: int, worker: Worker) -> None:
    message = worker.message
    if turn.state.expired and turn.state.truth is None:

        def expire(draft: Draft) -> None:
            draft.end("expired", 0)
            draft.put(index, Worker(at="dropping", message=message))

        turn.step(f"worker {index}: message too old, creates `expired`", expire)
        return
    deliveries = turn.state.copies[int(message[1])][1]
    if not turn.rules.deliveries_are_no_deaths and deliveries >= turn.scenario.deliveries_max:

        def poison(draft: Draft) -> None:
            draft.end("poison", 0)
            draft.put(index, Worker(at="dropping", message=message))

        turn.step(f"worker {index}: {deliveries} deliveries without a record: `poison`", poison)
        return

    def create(draft: Draft) -> None:
        draft.write(turn.book.create(WORKERS[index]), by=WORKERS[index])
        draft.put(index, Worker(at="claimed", message=message, epoch=1, fresh=True))

    turn.step(f"worker {index}: creates the record (running, epoch 1)", create)
    if turn.may_lose_answer():

        def lose(draft: Draft) -> None:
            draft.spend("lost")
            draft.late = Late("create", WORKERS[index], 1)
            draft.put(index, Worker(at="unsure", message=message, epoch=1))

        turn.fault(f"worker {index}: create gets NO ANSWER", lose)


def _claiming(turn: Turn, index: int, worker: Worker) -> None:
    """Compare-and-set: queued to running."""

    def claim(draft: Draft) -> None:
        truth = draft.truth
        assert truth is not None
        if not worker.fresh and turn.rules.claim_by_cas:
            draft.put(index, Worker(at="pulled", message=worker.message))
            return
        if truth.state != "queued":
            raise Broken(f"P3 claim takes the record from {truth.owner}: it is {truth.state}")
        draft.write(turn.book.claim(truth, WORKERS[index]), by=WORKERS[index])
        assert draft.truth is not None
        draft.put(
            index,
            Worker("claimed", worker.message, worker.epoch, True, -1, unrestored(turn)),
        )

    turn.step(f"worker {index}: " + ("claims by CAS" if worker.fresh else "claim CAS fails"), claim)
    if not worker.fresh:

        def give_up(draft: Draft) -> None:
            draft.put(index, Worker(at="dropping", message=worker.message))

        turn.step(f"worker {index}: fifth failure: gives up", give_up)
    elif turn.may_lose_answer():

        def lose(draft: Draft) -> None:
            draft.spend("lost")
            draft.late = Late("claim", WORKERS[index], worker.epoch)
            draft.put(index, worker._replace(at="unsure", fresh=False))

        turn.fault(f"worker {index}: claim gets NO ANSWER", lose)


def _unsure(turn: Turn, index: int, worker: Worker) -> None:
    """No answer: one read, then decide by owner and epoch."""

    def read(draft: Draft) -> None:
        truth = draft.truth
        rule = turn.rules.unanswered_claim
        if rule == "won" or (rule == "read" and turn.owns(index, worker)):
            workspace = unrestored(turn)
            after = Worker("claimed", worker.message, worker.epoch, rule == "read", -1, workspace)
        elif rule == "read" and (truth is None or truth.state == "queued"):
            after = Worker(at="pulled", message=worker.message)
        else:
            after = Worker(at="dropping", message=worker.message)
        draft.put(index, after)

    def move_on(draft: Draft) -> None:
        draft.give_back(worker.message)
        draft.put(index, WARM)

    turn.step(f"worker {index}: reads who owns", read)
    turn.step(f"worker {index}: no answer to the read either: nak, pulls on", move_on)


def _dropping(turn: Turn, index: int, worker: Worker) -> None:
    """Ack what another worker serves."""

    def drop(draft: Draft) -> None:
        draft.ack(worker.message)
        draft.put(index, WARM)

    turn.step(f"worker {index}: acks and drops", drop)


def _claimed(turn: Turn, index: int, worker: Worker) -> None:
    """Ack, then start."""

    def ack(draft: Draft) -> None:
        draft.ack(worker.message)
        draft.put(index, draft.workers[index]._replace(at="looking", message=""))

    def lose(draft: Draft) -> None:
        draft.spend("lost")
        draft.put(index, worker._replace(at="looking", message=""))

    turn.step(f"worker {index}: acks", ack)
    if turn.state.budget.lost:
        turn.fault(f"worker {index}: ack is LOST", lose)


CLAIM_STEPS: dict[str, Callable[[Turn, int, Worker], None]] = {
    "warm": _warm,
    "pulled": _pulled,
    "claiming": _claiming,
    "unsure": _unsure,
    "dropping": _dropping,
    "claimed": _claimed,
}
