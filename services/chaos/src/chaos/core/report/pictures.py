"""What a person reads in a minute: the pictures of a report, each also a file of its own."""

from __future__ import annotations

from chaos.core.hits import PARTS
from chaos.core.measure import Impact
from chaos.core.report.chart import Frame, Line, Picture, bars, chart, nice, steps_of
from chaos.core.report.data import Findings
from chaos.core.stats import longest


def pictures(found: Findings) -> list[Picture]:
    """Return all pictures, the most telling first."""
    drawn = [_sessions(found), *_recovery(found), _turns(found), _queue(found), _waiting(found)]
    return [*drawn, _pool(found)]


def _sessions(found: Findings) -> Picture:
    lines = found.lines
    frame = Frame(
        name="sessions",
        title="Sessions: live, and stalled by a fault",
        x_max=found.end_s,
        y_max=nice(longest(lines.live)),
        marks=found.lines.marks,
        y_name="sessions",
    )
    shown = [
        Line("live", lines.live, is_step=True),
        Line("stalled", lines.stalled, is_step=True),
        Line("recovered, in all", lines.recovered, is_step=True),
    ]
    return chart(frame, shown)


def _recovery(found: Findings) -> list[Picture]:
    """Return the shares over time to recover, and its parts; nothing where nobody had to recover."""
    impacts = found.measured.impacts
    times = {
        f"{impact.fault} at {impact.at_s:.0f} s": recovered
        for impact in impacts
        if (recovered := _recovered(impact))
    }
    if not times:
        return []
    frame = Frame(
        name="recovery",
        title="From the fault to the first acknowledged step: share of the sessions that had something to do",
        x_max=nice(max(max(values) for values in times.values())),
        y_max=1,
        y_name="share",
    )
    shares = chart(frame, [Line(name, steps_of(values)) for name, values in times.items()])
    rows = [
        (f"{impact.fault} at {impact.at_s:.0f} s", [impact.parts.get(part, 0.0) for part in PARTS])
        for impact in impacts
        if impact.parts
    ]
    return [shares, bars("parts", "What that time consists of (mean, seconds)", PARTS, rows)]


def _recovered(impact: Impact) -> list[float]:
    times = [hit.recover_s for hit in impact.hits if hit.kind != "idle"]
    return [time for time in times if time is not None]


def _turns(found: Findings) -> Picture:
    lines = found.lines
    frame = Frame(
        name="turns",
        title="Turns (without the long ones): seconds until the result",
        x_max=found.end_s,
        y_max=nice(longest(lines.latency_p99)),
        marks=found.lines.marks,
        y_name="seconds",
    )
    return chart(frame, [Line("P50", lines.latency_p50), Line("P99", lines.latency_p99)])


def _queue(found: Findings) -> Picture:
    frame = Frame(
        name="queue",
        title="Queue: seconds between two PubAcks of new tasks (the 400 longest)",
        x_max=found.end_s,
        y_max=nice(max(longest(found.lines.acks), 1.0)),
        marks=found.lines.marks,
        levels=[(1.0, "to reach after the leader's death")],
        y_name="seconds",
    )
    return chart(frame, [Line("gap", found.lines.acks, is_dots=True)])


def _waiting(found: Findings) -> Picture:
    frame = Frame(
        name="waiting",
        title="Tasks that were accepted and had not begun",
        x_max=found.end_s,
        y_max=nice(longest(found.lines.waiting)),
        marks=found.lines.marks,
        y_name="tasks",
    )
    return chart(frame, [Line("waiting", found.lines.waiting, is_step=True)])


def _pool(found: Findings) -> Picture:
    lines = found.lines
    stock = float(found.settings.get("stock", 0))
    frame = Frame(
        name="pool",
        title="Pool: workers that wait or start, against its stock; and those that are bound",
        x_max=found.end_s,
        y_max=nice(max(longest(lines.position), longest(lines.bound), stock)),
        marks=found.lines.marks,
        levels=[(stock, "stock")] if stock else (),
        y_name="pods",
    )
    shown = [
        Line("warm or starting", lines.position, is_step=True),
        Line("warm", lines.warm, is_step=True),
        Line("bound", lines.bound, is_step=True),
    ]
    return chart(frame, shown)
