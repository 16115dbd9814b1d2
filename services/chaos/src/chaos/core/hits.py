"""Which sessions a fault hit, and how each came back: fault, fence, claim, restore, replay, first step.

Times are of the injector's clock: when the fault was done, and when the streams' contents were heard.
"""

from __future__ import annotations

import bisect
import itertools
from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

import msgspec

from chaos.core.criteria import CRITERIA
from chaos.core.history import Call, History
from chaos.core.rows import Effect, Nemesis, Started, Stored, Version

PARTS = ("detect", "fence", "claim", "restore", "replay", "first step")
"""Fault -> its owner's revocation is decided -> it is stored -> a new owner is stored -> user code runs -> what had been done
before the fault is done again -> the first acknowledged step."""
NOT_RECOVERED_S = 60.0
HEARD_S = 1.0
"""What a target had stored before the fault is heard within that; later, it is the target that went on."""


class Hit(msgspec.Struct, kw_only=True):
    """One session whose owner a fault has taken."""

    fault: str
    at_s: float
    session: str
    epoch: int
    """Under which it was owned."""
    kind: Literal["task", "asked", "idle"]
    """A task was in hand; one was asked for before the session had a new owner; nobody noticed."""
    is_once: bool = False
    task: str | None = None
    klass: str = ""
    """Of that task."""
    is_still_owned: bool = False
    """Its old owner was not fenced, nor did it give the session up itself, as long as the run went on."""
    fenced_at: float | None = None
    home_at: float | None = None
    """A new owner is stored."""
    useful_at: float | None = None
    parts: tuple[float, ...] | None = None
    """Seconds, as `PARTS`; None: a moment of it was not seen."""

    @property
    def detect_s(self) -> float | None:
        """TTD: fault -> the old epoch is recorded as revoked."""
        return None if self.fenced_at is None else self.fenced_at - self.at_s

    @property
    def home_s(self) -> float | None:
        """Fault -> a new owner is stored."""
        return None if self.home_at is None else self.home_at - self.at_s

    @property
    def recover_s(self) -> float | None:
        """TTR: fault -> the first acknowledged step after it, of a new owner or of the old one that went on; None: none came."""
        return None if self.useful_at is None else self.useful_at - self.at_s


class Tables(msgspec.Struct):
    """A history by session and task."""

    versions: dict[str, list[Version]]
    calls: dict[str, list[Call]]
    results: dict[str, list[Stored]]
    started: dict[str, list[Started]]
    """By task."""
    effects: dict[str, list[Effect]]
    """By task."""


def tables(history: History) -> Tables:
    """Return a history by session and task, each list by time."""
    results: dict[str, list[Stored]] = defaultdict(list)
    for result in sorted(history.results, key=lambda one: one.time):
        results[result.session].append(result)
    started: dict[str, list[Started]] = defaultdict(list)
    for start in sorted(history.started, key=lambda one: one.time):
        started[start.task].append(start)
    effects: dict[str, list[Effect]] = defaultdict(list)
    for effect in sorted(history.effects, key=lambda one: one.time):
        effects[effect.task].append(effect)
    return Tables(history.versions_of(), history.by_session(), results, started, effects)


def hits_of(injected: Nemesis, found: Tables) -> list[Hit]:
    """Return the sessions that a fault hit: those that somebody owned on one of its targets when it was done."""
    targets = set(injected.targets)
    hits = []
    for session, versions in found.versions.items():
        last = _at(versions, injected.time)
        if last is None or last.state != "running" or last.node not in targets:
            continue
        hit = Hit(
            fault=injected.fault,
            at_s=injected.time,
            session=session,
            epoch=last.epoch,
            kind="idle",
        )
        _follow(hit, versions, found)
        hits.append(hit)
    return hits


def _at(versions: Sequence[Version], at_s: float) -> Version | None:
    """Return the version that was the newest at a moment."""
    place = bisect.bisect_right([one.time for one in versions], at_s)
    return versions[place - 1] if place else None


def _follow(hit: Hit, versions: Sequence[Version], found: Tables) -> None:
    """Find out how the session came back."""
    later = [one for one in versions if one.epoch > hit.epoch]
    fence = later[0] if later else None
    home = next((one for one in later if one.state == "running"), None)
    hit.is_still_owned = fence is None and versions[-1].state == "running"
    hit.fenced_at = fence.time if fence else None
    hit.home_at = home.time if home else None
    call = _call_in_hand(hit, found)
    if call is None:
        return
    hit.task, hit.klass, hit.is_once = call.invoke.task, call.invoke.klass, call.invoke.f == "once"
    results = [one for one in found.results.get(hit.session, ()) if one.task == hit.task]
    kept = next((one for one in results if one.epoch == hit.epoch), None)
    if kept is not None:
        _go_on(hit, call, kept, found)
        return
    result = next((one for one in results if one.epoch > hit.epoch), None)
    if result is None:
        return
    steps = [one for one in found.effects.get(hit.task, ()) if one.epoch == result.epoch]
    is_long = call.invoke.kind == "long"
    useful_at = steps[0].time if is_long and steps else result.time
    hit.useful_at = useful_at
    claim = next((one.time for one in later if one.epoch == result.epoch), None)
    start = next(
        (one.time for one in found.started.get(hit.task, ()) if one.epoch == result.epoch), None
    )
    if fence is None or claim is None or start is None:
        return
    revoked_at = min(max(fence.revoked_at or fence.time, hit.at_s), fence.time)
    done = 0 if is_long else _steps_before(hit, found)
    again = next((one.time for one in steps if one.step == done - 1), start)
    moments = [hit.at_s, revoked_at, fence.time, claim, start, again, useful_at]
    moments = [max(moments[: place + 1]) for place in range(len(moments))]  # heard a moment late
    hit.parts = tuple(b - a for a, b in itertools.pairwise(moments))


def _go_on(hit: Hit, call: Call, result: Stored, found: Tables) -> None:
    """Take in that the old owner, which nobody had fenced, went on and stored the result itself."""
    if hit.fault not in CRITERIA or "recover_p95_s" not in CRITERIA[hit.fault].most:
        hit.kind = "idle"  # a fault that takes no owner away: it stood still for nobody
        return
    steps = [
        one.time
        for one in found.effects.get(call.invoke.task, ())
        if one.epoch == hit.epoch and one.time > hit.at_s + HEARD_S
    ]
    hit.useful_at = steps[0] if call.invoke.kind == "long" and steps else result.time


def _call_in_hand(hit: Hit, found: Tables) -> Call | None:
    """Return the call that the fault struck, or the one that came before the session had a new owner."""
    done = {
        one.task
        for one in found.results.get(hit.session, ())
        if one.time <= hit.at_s + (HEARD_S if one.epoch == hit.epoch else 0.0)
    }
    until = hit.home_at if hit.home_at is not None else float("inf")
    for call in found.calls.get(hit.session, ()):
        if call.invoke.task in done or call.invoke.time >= until or call.ended_at <= hit.at_s:
            continue
        hit.kind = "task" if call.invoke.time <= hit.at_s else "asked"
        return call
    return None


def _steps_before(hit: Hit, found: Tables) -> int:
    """Return how many steps of the task in hand were done before the fault."""
    assert hit.task is not None
    return max(
        (
            one.step + 1
            for one in found.effects.get(hit.task, ())
            if one.epoch <= hit.epoch and one.time <= hit.at_s
        ),
        default=0,
    )
