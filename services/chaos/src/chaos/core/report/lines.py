"""The lines that pictures are drawn from."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable

import msgspec

from chaos.core.history import History
from chaos.core.hits import Hit
from chaos.core.measure import Measured
from shared.percentiles import percentile

BIN_S = 5.0
DECIMALS = 3
GAPS_SHOWN = 400
Point = tuple[float, float]


class Lines(msgspec.Struct, frozen=True, kw_only=True):
    """What pictures are drawn from."""

    stalled: list[Point] = []
    """Seconds, sessions."""
    live: list[Point] = []
    recovered: list[Point] = []
    latency_p50: list[Point] = []
    latency_p99: list[Point] = []
    acks: list[Point] = []
    """When a PubAck of a one-shot came, and seconds since the one before; the long ones."""
    waiting: list[Point] = []
    """Tasks that were accepted and had not begun."""
    warm: list[Point] = []
    position: list[Point] = []
    """Workers that wait or start."""
    bound: list[Point] = []
    pressure: list[Point] = []
    marks: list[tuple[float, str]] = []
    """What began when, in words."""


def lines_of(history: History, measured: Measured) -> Lines:
    """Return the lines of a run."""
    hits = [hit for impact in measured.impacts for hit in impact.hits if not hit.is_once]
    stalled, recovered, live = _standing(history, hits)
    p50, p99 = _latencies(history)
    acks = history.acks()
    gaps = [(after, after - before) for before, after in itertools.pairwise(acks)]
    pools = [(gauge.time, pool) for gauge in history.gauges for pool in gauge.pools.values()]
    return Lines(
        stalled=stalled,
        live=live,
        recovered=recovered,
        latency_p50=p50,
        latency_p99=p99,
        acks=_rounded(sorted(sorted(gaps, key=lambda gap: -gap[1])[:GAPS_SHOWN])),
        waiting=_waiting(history),
        warm=_rounded((at_s, float(warm)) for at_s, (warm, _, _) in pools),
        position=_rounded((at_s, float(warm + starting)) for at_s, (warm, starting, _) in pools),
        bound=_rounded((at_s, float(bound)) for at_s, (_, _, bound) in pools),
        pressure=_rounded((g.time, g.pressure) for g in history.gauges if g.pressure is not None),
        marks=[(round(one.time, DECIMALS), one.name) for one in history.phases],
    )


def _rounded(points: Iterable[Point]) -> list[Point]:
    return [(round(x, DECIMALS), round(y, DECIMALS)) for x, y in points]


def _waiting(history: History) -> list[Point]:
    """Return how many tasks waited for a worker, second by second."""
    begun = {one.task: one.time for one in reversed(history.started)}
    came = sorted(call.accepted_at for call in history.calls if call.accepted_at is not None)
    left = sorted(
        max(call.accepted_at, min(begun.get(call.invoke.task, float("inf")), call.ended_at))
        for call in history.calls
        if call.accepted_at is not None
    )
    return [
        (float(second), float(bisect_right(came, second) - bisect_right(left, second)))
        for second in range(int(history.end_s) + 1)
    ]


def _standing(history: History, hits: list[Hit]) -> tuple[list[Point], list[Point], list[Point]]:
    """Return how many sessions were stalled, had recovered and were live, second by second."""
    made = sorted(
        min(call.ended_at for call in calls if call.is_ok)
        for calls in history.by_session().values()
        if calls[0].invoke.f == "append" and any(call.is_ok for call in calls)
    )
    begins = sorted(hit.at_s for hit in hits)
    ends = sorted(_back_at(hit) for hit in hits)
    stalled, recovered, live = [], [], []
    for second in range(int(history.end_s) + 1):
        down = bisect_right(begins, second) - bisect_right(ends, second)
        stalled.append((float(second), float(down)))
        recovered.append((float(second), float(bisect_right(ends, second))))
        live.append((float(second), float(bisect_right(made, second) - down)))
    return stalled, recovered, live


def _back_at(hit: Hit) -> float:
    """Return when a session that was hit went on: with its task, or, where it had none, with a new owner."""
    moment = hit.home_at if hit.kind == "idle" else hit.useful_at
    return float("inf") if moment is None else moment


def _latencies(history: History) -> tuple[list[Point], list[Point]]:
    bins: dict[int, list[float]] = defaultdict(list)
    for call in history.calls:
        if call.is_ok and call.invoke.f == "append" and call.invoke.kind != "long":
            bins[int(call.ended_at // BIN_S)].append(call.ended_at - call.invoke.time)
    p50 = [(place * BIN_S, percentile(values, 50)) for place, values in sorted(bins.items())]
    p99 = [(place * BIN_S, percentile(values, 99)) for place, values in sorted(bins.items())]
    return _rounded(p50), _rounded(p99)
