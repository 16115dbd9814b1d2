"""Figures from a history, fault by fault and over all: the formulas of docs/chaos.md."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from chaos.core.around import Around, around
from chaos.core.check.fences import fences_of
from chaos.core.criteria import CRITERIA
from chaos.core.history import Call, History
from chaos.core.hits import NOT_RECOVERED_S, PARTS, Hit, hits_of, tables
from chaos.core.rows import Nemesis
from chaos.core.stats import Spread, longest_gap, spread
from shared.percentiles import percentile

ERR_WINDOW_S = 120.0
SLOW_S = 30.0
"""A call that takes longer counts as an error."""
GAP_WINDOW_S = 30.0


class Impact(msgspec.Struct, frozen=True, kw_only=True):
    """What one fault did."""

    fault: str
    at_s: float
    targets: tuple[str, ...]
    detail: str
    hit: int
    """Sessions with an owner on its targets."""
    in_task: int
    asked: int
    idle: int
    detect: Spread
    recover: Spread
    """Of sessions in a task, or asked before they had a new owner."""
    by_class: dict[str, Spread] = {}
    """The same by the class of their tasks: interactive ones come first."""
    home: Spread
    """Of all: until a new owner was stored."""
    not_recovered: int
    parts: dict[str, float]
    """Mean of each, seconds."""
    error_share: float
    redo: float
    out_queue_s: float
    """Longest gap between PubAcks of one-shots; of all tasks where those are few."""
    out_start_s: float
    """Longest gap between first instructions of one-shots."""
    around: Around = Around()
    hits: tuple[Hit, ...] = ()


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """How it was before the first fault."""

    until_s: float
    calls: int
    error_share: float
    fences: int
    """Owners that were fenced though nothing was broken."""
    turn_p99_s: float | None = None


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What a run has measured."""

    sessions: int
    bound_at_fault: int
    turns: int
    one_shots: int
    impacts: tuple[Impact, ...]
    stall: float
    users_with_error: int
    errors: tuple[str, ...]
    """The first few, in words."""
    disconnects: int
    reattached: int
    reattached_without_gap: int
    latency: Spread
    """Of turns before the first fault, seconds."""
    baseline: Baseline
    pressure: Spread
    fences: int


def measure(history: History) -> Measured:
    """Return all figures of a run."""
    found = tables(history)
    injected = [row for row in history.nemesis if row.type == "inject"]
    impacts = [_impact(row, hits_of(row, found), history) for row in injected]
    first_s = min((row.time for row in injected), default=history.end_s)
    turns = [call for call in history.calls if call.invoke.f == "append"]
    bad = [call for call in history.calls if is_error(call, history.end_s)]
    sessions = {call.invoke.session for call in turns if call.is_ok}
    lost_s = sum(
        _recover_s(hit, history) for impact in impacts for hit in impact.hits if hit.kind != "idle"
    )
    quick = [
        call.ended_at - call.invoke.time
        for call in turns
        if call.is_ok and call.invoke.kind != "long" and call.ended_at < first_s
    ]
    cuts = [cut for cut in history.cuts if cut.type == "cut"]
    gaps = {cut.task for cut in history.cuts if cut.type == "gap"}
    attached = [cut for cut in history.cuts if cut.type == "attached"]
    return Measured(
        sessions=len(sessions),
        bound_at_fault=_bound_at(found.versions, first_s, sessions),
        turns=len(turns),
        one_shots=sum(call.invoke.f == "once" for call in history.calls),
        impacts=tuple(impacts),
        stall=lost_s / (max(1, len(sessions)) * max(1.0, history.end_s)),
        users_with_error=len({call.invoke.session for call in bad}),
        errors=tuple(_describe(call) for call in bad[:5]),
        disconnects=len(cuts),
        reattached=len(attached),
        reattached_without_gap=sum(cut.task not in gaps for cut in attached),
        latency=spread(quick),
        baseline=_baseline(history, first_s, quick),
        pressure=spread(gauge.pressure for gauge in history.gauges),
        fences=len(fences_of(history)),
    )


def _baseline(history: History, first_s: float, turns: Sequence[float]) -> Baseline:
    calls = [call for call in history.calls if call.invoke.time < first_s]
    return Baseline(
        until_s=first_s,
        calls=len(calls),
        error_share=sum(is_error(call, first_s) for call in calls) / max(1, len(calls)),
        fences=sum(fence.time < first_s for fence in fences_of(history)),
        turn_p99_s=percentile(turns, 99) if turns else None,
    )


def is_error(call: Call, end_s: float) -> bool:
    """Return whether a user would call it an error: it failed, or took over 30 s, as far as the run went."""
    if call.end is not None and call.end.type != "ok":
        return True
    return min(call.ended_at, end_s) - call.invoke.time > SLOW_S


def _describe(call: Call) -> str:
    name = f"{call.invoke.token} ({call.invoke.f}, {call.invoke.via})"
    if call.end is None:
        return f"{name}: under way when the run was over"
    said = f"{call.end.type} {call.end.status or ''} {call.end.error}".strip()
    return f"{name} after {call.ended_at - call.invoke.time:.1f} s: {said}"


def _bound_at(versions: dict, at_s: float, sessions: set[str]) -> int:  # type: ignore[type-arg]  # as in Tables
    bound = 0
    for session in sessions:
        newest = [one for one in versions.get(session, ()) if one.time <= at_s]
        bound += bool(newest) and newest[-1].state == "running"
    return bound


def _impact(row: Nemesis, hits: Sequence[Hit], history: History) -> Impact:
    useful = [hit for hit in hits if hit.kind != "idle"]
    whole = [hit.parts for hit in useful if hit.parts is not None]
    calls = [
        call for call in history.calls if row.time <= call.invoke.time <= row.time + ERR_WINDOW_S
    ]
    acks = history.acks()
    once = {call.invoke.task for call in history.calls if call.invoke.f == "once"}
    starts = [one.time for one in history.started if one.task in once]
    # Up to the last one that was asked for: where none is acknowledged any more, that is no short gap.
    asked = [
        call.invoke.time
        for call in history.calls
        if call.invoke.f == "once" or (history.is_sparse and call.invoke.f == "append")
    ]
    span = (row.time, min(row.time + GAP_WINDOW_S, max([*acks, *asked], default=row.time)))
    return Impact(
        fault=row.fault,
        at_s=row.time,
        targets=row.targets,
        detail=row.detail,
        hit=len([hit for hit in hits if not hit.is_once]),
        in_task=sum(hit.kind == "task" for hit in hits),
        asked=sum(hit.kind == "asked" for hit in hits),
        idle=sum(hit.kind == "idle" for hit in hits),
        detect=spread(_detect_s(hit, history) for hit in hits),
        recover=spread(_recover_s(hit, history) for hit in useful),
        by_class={
            klass: spread(_recover_s(hit, history) for hit in useful if hit.klass == klass)
            for klass in sorted({hit.klass for hit in useful if hit.klass})
        },
        home=spread(hit.home_s for hit in hits),
        not_recovered=sum(
            hit.recover_s is None or hit.recover_s > NOT_RECOVERED_S for hit in useful
        ),
        parts={
            name: sum(parts[place] for parts in whole) / len(whole)
            for place, name in enumerate(PARTS)
            if whole
        },
        error_share=sum(is_error(call, history.end_s) for call in calls) / max(1, len(calls)),
        redo=_redo({hit.task for hit in useful if hit.task}, history),
        out_queue_s=longest_gap(acks, *span),
        out_start_s=longest_gap(starts, *span),
        around=around(row, history),
        hits=tuple(hits),
    )


def _detect_s(hit: Hit, history: History) -> float | None:
    """Return how long an owner went without being fenced: to the end of the run where it had to be and never was."""
    must_be_fenced = hit.fault in CRITERIA and "detect_p95_s" in CRITERIA[hit.fault].most
    return history.end_s - hit.at_s if must_be_fenced and hit.is_still_owned else hit.detect_s


def _recover_s(hit: Hit, history: History) -> float:
    """Return how long a session with something to do stood still: to the end of the run where it did not go on."""
    return history.end_s - hit.at_s if hit.recover_s is None else hit.recover_s


def _redo(tasks: set[str], history: History) -> float:
    """Return the share of steps that were executed again, of all that were executed for the tasks that were hit."""
    epochs: dict[tuple[str, int], set[int]] = defaultdict(set)
    for effect in history.effects:
        if effect.task in tasks:
            epochs[effect.task, effect.step].add(effect.epoch)
    executed = sum(map(len, epochs.values()))
    return (executed - len(epochs)) / max(1, executed)
