"""The model runs the real transitions: whoever breaks one of them breaks a property of the protocol."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from msgspec.structs import replace
from tests.model.explore import explore
from tests.model.rules import Budget, Scenario
from tests.model.scenarios import QUICK

from shared import heads, transitions
from shared.record import Record

Transition = Callable[..., Record]

VOLATILE = Scenario(tasks=1, budget=Budget(crash=1), snapshots=False)
TWO_TASKS = Scenario(tasks=2, budget=Budget(), snapshots=False)
"""Released between its tasks, a session loses its workspace without any fault."""
CANCEL = Scenario(tasks=1, budget=Budget(cancel=1))
RELAXED = QUICK["relaxed-crash"]
SILENT = Scenario(budget=Budget(suspect=3))


def _module_of(name: str) -> ModuleType:
    """Return where the model looks a transition up."""
    return heads if name in ("saved", "checkpoint") else transitions


def _spoilt(name: str, spoil: Callable[[Record, Record], dict[str, Any]]) -> tuple[str, Transition]:
    """Return a transition whose outcome is changed by what `spoil` makes of (before, after)."""
    real: Transition = getattr(_module_of(name), name)

    def spoilt(record: Record, *args: Any, **kwargs: Any) -> Record:
        after = real(record, *args, **kwargs)
        return replace(after, **spoil(record, after))

    return name, spoilt


def _claim_of_anything(record: Record, **kwargs: Any) -> Record:
    return _CLAIM(replace(record, state="queued"), **kwargs)


def _revoke_counts_silence(record: Record, *, death: Any, **act: Any) -> Record:
    return _REVOKE(record, death=replace(death, process_died=True), **act)


_CLAIM, _REVOKE = transitions.claim, transitions.revoke

BROKEN = {
    "a claim takes what is owned": (("claim", _claim_of_anything), QUICK["tiny-crash"], "P3"),
    "a claim names no owner": (_spoilt("claim", lambda *_: {"owner": None}), QUICK["tiny-crash"], "P3"),
    "a commit forgets the first task": (
        _spoilt("complete", lambda *_: {"first_done": False}), CANCEL, "P0",
    ),
    "a commit runs ahead of the inbox": (
        _spoilt("complete", lambda _, after: {"position": after.position + 1}), CANCEL, "P11",
    ),
    "a commit repeats that the workspace is lost": (
        _spoilt("complete", lambda before, _: {"lost": before.lost}), TWO_TASKS, "P10",
    ),
    "a release leaves the position behind": (
        _spoilt("release", lambda before, _: {"position": before.position}), CANCEL, "P7",
    ),
    "a session taken back says that its workspace is lost": (
        _spoilt("take_back", lambda before, _: {"lost": before.lost}), TWO_TASKS, "P10",
    ),
    "a revocation leaves the owner": (
        ("revoke", lambda record, **_: record), QUICK["tiny-crash"], "P1",
    ),
    "a lost workspace is not mentioned": (
        ("give_up", lambda record, **_: record), VOLATILE, "P10",
    ),
    "a result leaves the boundary behind": (
        _spoilt("saved", lambda before, _: {"boundary": before.boundary}), CANCEL, "P2",
    ),
    "a checkpoint moves the boundary": (
        _spoilt("checkpoint", lambda _, after: {"boundary": after.latest and after.latest.snapshot}),
        QUICK["checkpoint-rerun"], "P2",
    ),
    "a rescue saves nothing": (
        _spoilt("rescued", lambda before, _: {"latest": before.latest}), QUICK["rescue-resume"], "P12",
    ),
    "a session rescued in mid-task has a new boundary": (
        _spoilt("rescued", lambda _, after: {"boundary": after.latest and after.latest.snapshot}),
        QUICK["rescue-resume"], "P2",
    ),
    "files that are not saved are taken for saved": (
        _spoilt("complete", lambda before, _: {"checkpoint_stale_ms": 0}), RELAXED, "P10",
    ),
    "silence counts as a death": (("revoke", _revoke_counts_silence), SILENT, "P8"),
    "a wake-up changes nothing": (
        _spoilt("wake", lambda before, _: {"state": before.state}), QUICK["tiny-hint-loss"], "P1",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_transition_breaks_a_property(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search would find it, had it been written so."""
    (function, spoilt), scenario, breaks = BROKEN[name]
    sound = explore(scenario)
    monkeypatch.setattr(_module_of(function), function, spoilt)

    outcome = explore(scenario)

    assert sound.broken is None, str(sound)
    assert (outcome.broken or "").startswith(breaks), str(outcome)
