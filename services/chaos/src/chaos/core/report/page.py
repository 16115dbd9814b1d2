"""The report as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from chaos.core.check.book import MEANING
from chaos.core.growth import Growth
from chaos.core.hits import PARTS
from chaos.core.measure import Impact
from chaos.core.report import chart
from chaos.core.report.data import Findings
from chaos.core.report.pictures import pictures
from chaos.core.stats import Spread

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; color: #222; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem; margin-bottom: .2rem } h2 { font-size: 1.15rem; margin-top: 2rem }
table { border-collapse: collapse; margin: .6rem 0; font-size: .9rem } td, th { padding: .2rem .7rem; text-align: right }
td:first-child, th:first-child { text-align: left; padding-left: 0 } tr { border-bottom: 1px solid #e4e4e4 }
th { font-weight: 600 } .true, .met { color: #1a7f37 } .false, .missed { color: #b3261e } .unknown { color: #9a6700 }
.verdict { font-weight: 700 } figure { margin: 1rem 0 } figcaption { font-weight: 600 }
.small { color: #666; font-size: .85rem }
"""


_HISTORY = "The raw history lies beside this file, unless its own page says why not."


def page(found: Findings) -> str:
    """Return the whole page."""
    name = f"Chaos: {found.run}, seed {found.seed}"
    parts = [
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(name)}</title>',
        f"<style>{STYLE}{chart.STYLE}</style></head><body><h1>{escape(name)}</h1>",
        _verdict(found),
        *(picture.to_figure() for picture in pictures(found)),
        _targets(found),
        _impacts(found.measured.impacts),
        _around(found.measured.impacts),
        _parts(found.measured.impacts),
        _growth(found.growth),
        _checks(found),
        _errors(found),
        _header(found),
        "</body></html>\n",
    ]
    return "\n".join(parts)


def _verdict(found: Findings) -> str:
    verdict, measured = found.verdict, found.measured
    words = {
        "true": "nothing that must not be",
        "false": "something that must not be",
        "unknown": "not all could be looked at, so this is no pass",
    }
    lines = [
        f'<p>Verdict: <span class="verdict {verdict.verdict}">{verdict.verdict}</span> ({words[verdict.verdict]}). '
        f"{measured.sessions} sessions, {measured.turns} turns and {measured.one_shots} one-shots in {found.end_s:.0f} s; "
        f"{len(measured.impacts)} faults; users with an error: {measured.users_with_error}.</p>"
    ]
    calm = measured.baseline
    if calm.turn_p99_s is not None and measured.latency.p50 is not None:
        lines.append(
            f"<p>Before the first fault, {calm.until_s:.0f} s: turns took P50 {measured.latency.p50:.2f} s, "
            f"P99 {calm.turn_p99_s:.2f} s, of which the stubbed model takes 0.8 to 4 s; errors {calm.error_share:.2%} of "
            f"{calm.calls} calls; owners fenced {calm.fences}.</p>"
        )
    lines += [f'<p class="unknown">Unknown: {escape(why)}.</p>' for why in verdict.unknowns]
    if found.think > 1:
        lines.append(
            f'<p class="unknown">The machine was too busy (pressure 0.5 or more before the first fault): users thought '
            f"{found.think:.2f} times longer than planned.</p>"
        )
    return "\n".join(lines)


def _targets(found: Findings) -> str:
    rows = []
    for name, value in found.figures.items():
        target = found.targets.get(name)
        bound = "" if target is None else f"{'≥' if target.at_least else '≤'} {target.reach:g}"
        is_met = target is None or target.is_met(value)
        state = "" if target is None else "reached" if is_met else "missed"
        rows.append([name, f"{value:g}", bound, state])
    return "<h2>Figures</h2>" + _table(["figure", "value", "to reach", ""], rows)


def _impacts(impacts: Sequence[Impact]) -> str:
    rows = [
        [
            f"{one.fault} at {one.at_s:.0f} s",
            f"{one.hit}",
            f"{one.in_task} / {one.asked} / {one.idle}",
            _spread(one.detect),
            _spread(one.recover),
            _spread(one.home),
            _means(one.detect.mean, one.recover.mean),
            f"{one.error_share:.2%}",
            f"{one.redo:.1%}",
            f"{one.out_queue_s:.2f}",
            f"{one.out_start_s:.2f}",
            f"{one.not_recovered}",
        ]
        for one in impacts
    ]
    head = [
        "fault", "sessions hit", "in a task / asked / idle", "detect P50 / P95 / max", "recover P50 / P95 / max",
        "new owner P50 / P95 / max", "MTTD / MTTR", "errors", "redone", "queue gap", "start gap", "not recovered",
    ]  # fmt: skip
    where = "".join(
        f'<p class="small">{escape(one.fault)}: {escape(", ".join(one.targets))} {escape(one.detail)}{_classes(one)}</p>'
        for one in impacts
    )
    return "<h2>Faults (seconds)</h2>" + _table(head, rows) + where


def _classes(impact: Impact) -> str:
    """Return how soon tasks of each class went on."""
    return "".join(
        f"; {escape(klass)} ({one.count}): {_spread(one)} s"
        for klass, one in impact.by_class.items()
    )


def _around(impacts: Sequence[Impact]) -> str:
    rows = [
        [
            f"{one.fault} at {one.at_s:.0f} s",
            *(
                "-" if value is None else f"{value:.2f}"
                for value in (
                    one.around.turn_p99_ratio,
                    one.around.delay_max_s,
                    one.around.settled_s,
                    one.around.restock_s,
                    one.around.over_share,
                )
            ),
        ]
        for one in impacts
    ]
    head = [
        "fault", "turns' P99 by that before", "longest delay, s", "settled after healing, s", "stock back after, s",
        "over stock, share",
    ]  # fmt: skip
    return "<h2>Those who were not hit, and the pool</h2>" + _table(head, rows)


def _growth(growth: Sequence[Growth]) -> str:
    if not growth:
        return ""
    rows = [
        [
            one.kind,
            f"{one.processes}",
            f"{one.memory_mib:.0f}",
            f"{one.memory_mib_per_h:+.1f}",
            f"{one.files:.0f}",
            f"{one.files_per_h:+.1f}",
            f"{one.disk_mib:.0f}",
            f"{one.disk_mib_per_h:+.1f}",
        ]
        for one in growth
    ]
    head = [
        "service", "processes", "memory, MiB", "MiB an hour", "open files", "files an hour", "streams on disk, MiB",
        "MiB an hour",
    ]  # fmt: skip
    return "<h2>Growth after the first quarter (all processes of a kind)</h2>" + _table(head, rows)


def _parts(impacts: Sequence[Impact]) -> str:
    rows = [
        [one.fault, *(f"{one.parts.get(part, 0.0):.3f}" for part in PARTS)]
        for one in impacts
        if one.parts
    ]
    return "<h2>Recovery in six parts (mean, seconds)</h2>" + _table(["fault", *PARTS], rows)


def _checks(found: Findings) -> str:
    verdict = found.verdict
    rows = [[kind.upper(), str(count), MEANING[kind]] for kind, count in verdict.counts.items()]
    looked = ", ".join(f"{count} {name}" for name, count in verdict.looked_at.items())
    told = "".join(
        f"<li><b>{one.kind.upper()}</b> {escape(one.session)}: {escape(one.what)}</li>"
        for one in verdict.findings
    )
    return (
        "<h2>Checkers</h2>"
        + _table(["", "found", "meaning"], rows)
        + f'<p class="small">Looked at: {looked}. False fences: {verdict.false_per_node_hour:.2f} per node-hour.</p>'
        + (f"<ul>{told}</ul>" if told else "")
    )


def _errors(found: Findings) -> str:
    if not found.measured.errors:
        return ""
    told = "".join(f"<li>{escape(one)}</li>" for one in found.measured.errors)
    return f"<h2>The first errors that users met</h2><ul>{told}</ul>"


def _header(found: Findings) -> str:
    pressure = found.measured.pressure
    shown = (
        "not known" if pressure.p50 is None else f"P50 {pressure.p50:.2f}, max {pressure.max:.2f}"
    )
    machine = ", ".join(f"{name} {value}" for name, value in found.machine.items())
    settings = ", ".join(
        f"{name} {value}"
        for name, value in found.settings.items()
        if name not in ("schedule", "habits")
    )
    return (
        f'<h2>Run</h2><p class="small">Commit {escape(found.commit)}; {escape(machine)}; processor pressure (PSI some) '
        f"{shown}. Settings: {escape(settings)}. {_HISTORY}</p>"
    )


def _means(detect: float | None, recover: float | None) -> str:
    return " / ".join("-" if mean is None else f"{mean:.2f}" for mean in (detect, recover))


def _spread(one: Spread) -> str:
    if one.p50 is None or one.p95 is None or one.max is None:
        return "-"
    return f"{one.p50:.2f} / {one.p95:.2f} / {one.max:.2f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(
        "<tr>"
        + "".join(f'<td class="{_class(cell)}">{escape(cell)}</td>' for cell in row)
        + "</tr>"
        for row in rows
    )
    return f"<table><tr>{cells}</tr>{body}</table>"


def _class(cell: str) -> str:
    return {"reached": "met", "missed": "missed"}.get(cell, "")
