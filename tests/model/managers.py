"""Steps of pool-managers: wake, revoke, sweep. Rules 5 to 7 of the protocol.

Pool-managers keep no state between read and compare-and-set (one that fails is a step that changes nothing), so any
number of them is covered; one that dies between its write and the token is covered because, with the sweeper on, no
write sends a token by itself.
"""

from __future__ import annotations

from functools import partial

from tests.model.draft import Draft
from tests.model.owners import OWNING
from tests.model.records import DEAD, DEAD_IDLE, RESCUER, WORKERS, Truth, tried
from tests.model.rules import Broken
from tests.model.state import ABSENT, FLYING, WAITING, Rescuer
from tests.model.turn import Turn

from shared.record import ENDED


def steps(turn: Turn) -> None:
    """Offer what pool-managers may do next."""
    truth = turn.state.truth
    if truth is None:
        _without_record(turn)
    else:
        _revoke(turn, truth)
        _sweep(turn, truth)
        if turn.state.hint:
            _hear_wake(turn, truth)
    if turn.state.hint and turn.state.budget.hint:

        def lose(draft: Draft) -> None:
            draft.spend("hint")
            draft.hint = False

        turn.fault("wake message LOST", lose)


def _wake(draft: Draft, lane: str = "batch") -> None:
    assert draft.truth is not None
    draft.write(draft.book.wake(draft.truth, lane))


def _send_token(draft: Draft) -> None:
    for slot in (0, 1):
        if draft.tokens[slot] == ABSENT:
            draft.move(f"T{slot}", WAITING)
            return


def _reject(draft: Draft) -> None:
    for task in range(1, draft.accepted + 1):
        if draft.results[task] is None:
            draft.settle(task, "rejected")


def _hear_wake(turn: Turn, truth: Truth) -> None:
    """Queue the session in the class of what was heard, or let it rise to that."""

    def hear(draft: Draft, lane: str = "batch") -> None:
        draft.hint = False
        if truth.state in ENDED:
            _reject(draft)
        elif draft.accepted > truth.position and tried(draft.book.wake, truth, lane):
            _wake(draft, lane)
            if not turn.scenario.sweeper:
                _send_token(draft)

    turn.step(f"pool-manager: hears wake (record {truth.state})", hear)
    if _is_urgent(turn):
        urgent = partial(hear, lane="interactive")
        turn.step(f"pool-manager: hears urgent wake (record {truth.state})", urgent)


def _is_urgent(turn: Turn) -> bool:
    """Whether a task that asks for a worker in `interactive` waits in the inbox."""
    return turn.scenario.classes and None in turn.state.results[2 : turn.state.accepted + 1]


def _without_record(turn: Turn) -> None:
    state = turn.state
    if state.expired and any(where in (WAITING, FLYING) for where, _ in state.copies):
        turn.step("sweeper: creates `expired`", lambda draft: draft.end("expired", 0))
    if state.hint:

        def hear(draft: Draft) -> None:
            draft.hint = False
            early = [task for task in range(1, draft.accepted + 1) if draft.results[task] is None]
            if early and not turn.rules.unknown_waits:
                raise Broken(
                    f"P9 task {early[0]} rejected as of an unknown session while its first task waits in the lane"
                )

        turn.step("pool-manager: hears wake, no record", hear)


def _revoke(turn: Turn, truth: Truth) -> None:
    """Give up an owner that is dead, does not name the session and epoch, or is suspected."""
    cause, fair = _cause(turn, truth), True
    if cause is None and turn.state.budget.suspect and truth.owner in (*WORKERS, RESCUER):
        cause, fair = "SUSPECTS a live owner", False
    if cause is None or not turn.rules.revoke_writes:
        return

    def revoke(draft: Draft, rescues: bool = False) -> None:
        if not fair:
            draft.spend("suspect")
        task, ended = draft.rest_of_inbox(), cause == "owner is dead"
        in_task = task is not None or not ended or not turn.rules.idle_deaths_are_free
        idle = truth.owner == DEAD_IDLE and turn.rules.idle_deaths_count_for_no_task
        died = ended and not idle
        named = "" if task is None or not turn.rules.deaths_name_task else str(task)
        revoked = turn.book.revoke(truth, died, in_task, named, rescues)
        if revoked.state == "poison":
            draft.check_poison()
        draft.write(revoked, by=RESCUER if rescues else "")
        if revoked.state == "rescuing":
            draft.spend("rescue")
            draft.rescuer = Rescuer(revoked.epoch, True)
            return
        _check_kept(turn, draft)
        draft.orphan = None
        if revoked.state == "poison":
            if task is None:
                raise Broken("P8 poison although no task was in hand")
            draft.settle(task, "poison")
        elif not turn.scenario.sweeper:
            _send_token(draft)

    may_rescue = cause == "owner is dead" and _may_rescue(turn, truth)
    if not (may_rescue and turn.scenario.rescue_is_sure):
        turn.step(f"pool-manager: revokes ({cause})", revoke, fair=fair)
    if may_rescue:
        rescue = partial(revoke, rescues=True)
        turn.step("pool-manager: revokes, its checkpointer saves the files", rescue)


def _may_rescue(turn: Turn, truth: Truth) -> bool:
    """Whether what lies in a dead pod is what its session should go on with."""
    orphan, rules = turn.state.orphan, turn.rules
    if truth.state != "running" or orphan is None or not turn.state.budget.rescue:
        return False
    draft = Draft(turn.state, turn.book, rules, turn.scenario, keeps_workspaces=True)
    task = draft.rest_of_inbox()
    if orphan.task == -1 and rules.whole_is_rescued_before_rerun:
        return True
    if task is not None and turn.scenario.on_interrupt == "rerun":
        return False
    return orphan.task in (-1, task) or not rules.rescue_heeds_task


def _check_kept(turn: Turn, draft: Draft) -> None:
    """Raise Broken where a dead pod's files are given up although they could have been saved."""
    orphan = draft.orphan
    sure = turn.scenario.rescue_is_sure and turn.state.budget.rescue
    if (
        sure
        and orphan is not None
        and orphan.task == -1
        and draft.truth
        and draft.truth.record.lost
    ):
        raise Broken(f"P13 {orphan.workspace} is lost with a pod whose files could be saved")


def _cause(turn: Turn, truth: Truth) -> str | None:
    """Return why the record's owner is surely not there, if so."""
    rules = turn.rules
    if truth.state not in ("running", "rescuing"):
        return None
    if truth.state == "rescuing" and not rules.rescue_has_deadline:
        return None
    if truth.owner in (DEAD, DEAD_IDLE):
        return "owner is dead" if rules.dead_are_revoked else None
    if truth.owner == RESCUER:
        named = turn.state.rescuer is not None
    else:
        named = any(
            worker.at in OWNING and worker.epoch == truth.epoch
            for name, worker in zip(WORKERS, turn.state.workers, strict=True)
            if name == truth.owner
        )
    return None if named or not rules.heartbeats_name_epoch else "owner does not name it"


def _sweep(turn: Turn, truth: Truth) -> None:
    state, rules = turn.state, turn.rules
    if not rules.expiry_creates and state.expired and truth.state not in ENDED:

        def expire(draft: Draft) -> None:
            draft.write(turn.book.end_unborn("expired"))
            draft.settle(0, "expired")

        turn.step("sweeper: puts `expired` over the record", expire)
    if not turn.scenario.sweeper:
        return
    duplicate = state.token_sent and not rules.token_ids_hold_time
    if (
        truth.state == "queued"
        and ABSENT in state.tokens
        and rules.tokens_are_swept
        and not duplicate
    ):

        def send(draft: Draft) -> None:
            _send_token(draft)
            draft.token_sent = not rules.token_ids_hold_time

        turn.step("sweeper: token", send)
    if truth.state == "idle" and state.accepted > truth.position and rules.idle_are_swept:
        turn.step("sweeper: idle with inbox beyond position -> queued", _wake)
    if truth.state == "queued" and _is_urgent(turn) and tried(turn.book.wake, truth, "interactive"):
        rise = partial(_wake, lane="interactive")
        turn.step("sweeper: queued less urgently than its inbox -> rises", rise)
    open_ends = None in state.results[1 : state.accepted + 1]
    if truth.state in ENDED and open_ends and rules.ended_are_swept:
        turn.step("sweeper: rejects the inbox of an ended session", _reject)
