"""What is explored: scenarios in which every property holds, and mutants that each break one."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.model.rules import Budget, Rules, Scenario


def _scenario(tasks: int = 0, *, rest: dict[str, Any] | None = None, **faults: int) -> Scenario:
    return Scenario(tasks=tasks, budget=Budget(**faults), **(rest or {}))


ONE_SHOT = {"keep": False}
EXPIRY = {"expiry": True}
CLASSES = {"classes": True}
VOLATILE = {"snapshots": False}
"""Nothing is ever saved: a node without a checkpointer."""
RESUME = {"on_interrupt": "resume"}
FAIL = {"on_interrupt": "fail"}
RELAXED = {"relaxed": True}
SURE = {"rescue_is_sure": True}

QUICK = {  # seconds each at most
    "tiny-crash": _scenario(crash=1),
    "tiny-lost": _scenario(lost=1),
    "tiny-cancel": _scenario(1, cancel=1),
    "tiny-hint-loss": _scenario(1, hint=1),
    "tiny-zombie": _scenario(1, suspect=1),
    "tiny-rescue": _scenario(crash=2, rescue=1),
    "no-sweeper": _scenario(2, rest={"sweeper": False}),
    "plain-copy-zombie": _scenario(lost=1, suspect=1, copy=1),
    "plain-copy-cancel": _scenario(lost=1, cancel=1, copy=1, rest=EXPIRY),
    "plain-copy-crash": _scenario(crash=1, cancel=1, copy=1, rest=EXPIRY),
    "plain-crash-twice-lost": _scenario(crash=2, lost=1),
    "plain-lost-twice-zombie": _scenario(lost=2, suspect=1),
    "one-shot": _scenario(1, crash=1, lost=1, hint=1, rest=ONE_SHOT),
    "one-shot-zombie": _scenario(1, suspect=1, lost=1, cancel=1, rest=ONE_SHOT),
    "inbox-2-zombies": _scenario(2, suspect=2),
    "inbox-3-copy": _scenario(3, copy=1),
    "poison": _scenario(crash=3),
    "expiry": _scenario(1, crash=1, hint=1, rest=EXPIRY),
    "classes": _scenario(2, hint=1, rest=CLASSES),
    "volatile-crash": _scenario(2, crash=1, rest=VOLATILE),
    "volatile-lost": _scenario(1, lost=1, rest=VOLATILE),
    "checkpoint-rerun": _scenario(1, crash=1, checkpoint=1),
    "checkpoint-resume": _scenario(1, crash=1, checkpoint=1, rest=RESUME),
    "checkpoint-fail": _scenario(1, crash=1, checkpoint=1, rest=FAIL),
    "checkpoint-zombie": _scenario(suspect=1, checkpoint=1, lost=1, rest=RESUME),
    "rescue-resume": _scenario(1, crash=1, rescue=1, rest=RESUME),
    "rescue-fail": _scenario(1, crash=1, rescue=1, rest=FAIL),
    "rescue-cancelled": _scenario(1, crash=1, rescue=1, cancel=1),
    "relaxed-crash": _scenario(1, crash=1, rest=RELAXED),
    "relaxed-rescue": _scenario(1, crash=1, rescue=1, rest=RELAXED),
    "relaxed-rescue-fail": _scenario(1, crash=1, rescue=1, rest=RELAXED | FAIL),
    "relaxed-sure-rescue": _scenario(1, crash=1, rescue=1, rest=RELAXED | SURE),
}
SLOW = {  # the longest first: several run at once
    "everything": _scenario(crash=1, lost=1, suspect=1, cancel=1),
    "inbox-1-crash": _scenario(1, crash=1, lost=1, hint=1),
    "inbox-1-cancel": _scenario(1, suspect=1, lost=1, cancel=1),
    "inbox-1-crash-suspect-cancel": _scenario(1, crash=1, suspect=1, cancel=1),
    "inbox-1-crash-lost-cancel": _scenario(1, crash=1, lost=1, cancel=1),
    "inbox-1-lost-twice": _scenario(1, lost=2),
    "inbox-2-cancel": _scenario(2, lost=1, cancel=2),
    "inbox-3": _scenario(3, crash=1, suspect=1),
    "close-inside": _scenario(2, crash=1, lost=1, rest={"close_at": 1}),
    "rescue": _scenario(1, crash=2, rescue=1),
    "rescue-cancel": _scenario(crash=1, rescue=1, cancel=1, suspect=1),
    "poison-cancel": _scenario(2, crash=2, cancel=1, rest={"deaths_max": 2}),
    "classes-crash": _scenario(2, crash=1, hint=1, rest=CLASSES),
    "volatile-cancel": _scenario(2, crash=1, cancel=1, rest=VOLATILE),
    "volatile-zombie": _scenario(1, suspect=1, lost=1, cancel=1, rest=VOLATILE),
    "volatile-crash-lost": _scenario(1, crash=2, lost=1, rest=VOLATILE),
    "checkpoint-cancel": _scenario(1, crash=1, checkpoint=1, cancel=1, rest=RESUME),
    "checkpoint-twice": _scenario(1, crash=2, checkpoint=1, rest=RESUME),
    "rescue-twice": _scenario(1, crash=2, rescue=2, rest=RESUME),
    "rescue-checkpoint": _scenario(1, crash=1, checkpoint=1, rescue=1, rest=RESUME),
    "relaxed-twice": _scenario(2, crash=2, rescue=1, rest=RELAXED),
    "relaxed-cancel": _scenario(1, crash=1, rescue=1, cancel=1, rest=RELAXED | RESUME),
    "relaxed-resume": _scenario(1, crash=2, checkpoint=1, rest=RELAXED | RESUME),
}
ANY = {**QUICK, **SLOW}


class Mutant(NamedTuple):
    """The rules but for one, where that shows, and the property that breaks there."""

    name: str
    rules: Rules
    scenario: Scenario
    breaks: str
    """Empty: the rule is redundant in this scenario."""


def _drop(rule: str, scenario: str | Scenario, breaks: str, *, value: Any = False) -> Mutant:
    """Return the rules without one, or without several (joined by `+`)."""
    rules = Rules(**dict.fromkeys(rule.split("+"), value))
    name = f"{rule}={value}" if value else f"no {rule}"
    name += f" @ {scenario}" if isinstance(scenario, str) else ""
    return Mutant(name, rules, ANY[scenario] if isinstance(scenario, str) else scenario, breaks)


TRAPPED = "P1"
MUTANTS = [
    # Rule 1: claim
    _drop("claim_by_cas", "tiny-zombie", "P3"),
    _drop("create_expects_none", "inbox-3-copy", "P2"),
    _drop("ack_after_claim", "tiny-crash", TRAPPED),
    _drop("redelivery", "tiny-crash", TRAPPED),
    _drop("unanswered_claim", "tiny-lost", TRAPPED, value="lost"),
    _drop("unanswered_claim", "tiny-lost", TRAPPED, value="won"),
    _drop("unknown_waits", _scenario(1), "P9"),
    # Rules 2 and 3: commit
    _drop("commit_by_cas", "tiny-zombie", "P3"),
    _drop("commit_is_one_batch", "tiny-zombie", "P2"),
    _drop("result_is_created", "tiny-cancel", "P2"),
    _drop("done_tasks_are_skipped", "tiny-cancel", "P7"),
    _drop("refused_commit_restores", "inbox-2-cancel", "P10", value="nothing"),
    _drop("refused_commit_restores", "inbox-2-cancel", "P10", value="own"),
    _drop("end_is_one_batch", _scenario(cancel=1), TRAPPED),
    _drop("cancel_answers_after_commit", "inbox-1-cancel", "P6"),
    # Rule 4: release
    _drop("last_look", "no-sweeper", TRAPPED),
    _drop("last_look_after_release", "no-sweeper", TRAPPED),
    _drop("release_moves_position", _scenario(1, cancel=1), "P7"),
    # Rules 5 and 6: revoke
    _drop("revoke_writes", "tiny-crash", TRAPPED),
    _drop("zombie_dies", "tiny-zombie", "P3"),
    _drop("heartbeats_name_epoch", "tiny-lost", TRAPPED),
    _drop("dead_are_revoked", "tiny-crash", TRAPPED),
    _drop("rescue_has_deadline", "tiny-rescue", "P7"),
    # The two heads of the workspace
    _drop("checkpoint_by_cas", "checkpoint-zombie", "P3"),
    _drop("rerun_begins_at_boundary", "checkpoint-rerun", "P10"),
    _drop("rescue_of_whole_only", "rescue-twice", "P2"),
    _drop("rescue_heeds_task", _scenario(2, crash=1, rescue=1, cancel=1, rest=RESUME), "P10"),
    _drop("rescued_whole_is_boundary", "relaxed-rescue", "P12"),
    _drop("rescued_whole_is_no_interruption", "relaxed-rescue-fail", "P12"),
    _drop("whole_is_rescued_before_rerun", "relaxed-sure-rescue", "P13"),
    _drop("deliveries_are_no_deaths", _scenario(lost=2), "P8"),
    _drop("deaths_name_task", "poison-cancel", "P8"),
    _drop("idle_deaths_are_free", "poison", "P8"),
    _drop("idle_deaths_count_for_no_task", _scenario(1, crash=2, rest={"deaths_max": 2}), "P8"),
    # Rule 7: sweeper
    _drop("tokens_are_swept", "tiny-crash", TRAPPED),
    _drop("idle_are_swept", "tiny-hint-loss", TRAPPED),
    _drop(
        "ended_are_swept",
        _scenario(1, hint=1, rest={"keep": False, "early_follow_ups": False}),
        TRAPPED,
    ),
    _drop("expiry_creates", "expiry", "P2"),
]
REDUNDANT = [  # one rule stands in for the other; kept because each holds without the other
    _drop("last_look", "tiny-hint-loss", ""),  # the sweeper finds what the last look would have
    _drop("token_ids_hold_time", "plain-crash-twice-lost", ""),  # the queue delivers again
    # Every write is a compare-and-set: epochs repeat that for stores that have none.
    _drop("claim_grows_epoch", "tiny-zombie", ""),
    _drop("revoke_grows_epoch", "tiny-zombie", ""),
    _drop("claim_grows_epoch+revoke_grows_epoch", "tiny-zombie", ""),
]
REDUNDANT_SLOW = [
    _drop("claim_grows_epoch", "inbox-1-cancel", ""),
    _drop("revoke_grows_epoch", "inbox-1-cancel", ""),
    _drop("claim_grows_epoch+revoke_grows_epoch", "inbox-1-cancel", ""),
]
