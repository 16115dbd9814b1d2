"""Pictures as files of their own: charts of the chaos lab's report and bars of any unit, one below the other. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from chaos.core.report.chart import COLOURS, WIDTH, Frame, Line, Picture, Point, chart, nice

__all__ = ["Line", "Picture", "Point", "bars", "over", "pairs", "picture"]

TITLE = 26
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #333 } .title { font-size: 15px; font-weight: 600 }
.grid { stroke: #ddd } .mark { stroke: #8a8f96; stroke-dasharray: 3 3 } .level { stroke: #c33; stroke-dasharray: 5 4 }
.mark-text { fill: #555; font-size: 11px }
"""
BAR_LEFT, BAR_RIGHT, BAR_STEP, BAR_TOP = 230.0, 90.0, 26, 30


def picture(*charts: Picture) -> str:
    """Return one SVG document with all charts."""
    parts, top = [], 0
    for one in charts:
        parts.append(f'<text class="title" x="16" y="{top + 20}">{escape(one.title)}</text>')
        parts.append(f'<g transform="translate(0 {top + TITLE})">{one.body}</g>')
        top += TITLE + one.height
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top}" viewBox="0 0 {WIDTH} {top}">\n'
        f'<style>{STYLE}</style>\n<rect width="{WIDTH}" height="{top}" fill="#fff"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def over(title: str, unit: str, x_name: str, lines: Sequence[Line]) -> Picture:
    """Return a chart whose axes fit what is drawn."""
    points = [point for line in lines for point in line.points] or [(0.0, 0.0)]
    frame = Frame(
        name="",
        title=title,
        x_max=_end_of(max(x for x, _ in points)),
        y_max=nice(max(y for _, y in points)),
        y_name=unit,
        x_name=x_name,
    )
    return chart(frame, lines)


def bars(
    title: str, names: Sequence[str], rows: Sequence[tuple[str, Sequence[float]]], unit: str
) -> Picture:
    """Return horizontal bars, each stacked of named parts.

    Args:
        title: of the chart.
        names: of the parts.
        rows: each bar's name, and its parts.
        unit: of the values.
    """
    longest = max((math.fsum(values) for _, values in rows), default=1.0) or 1.0
    room = WIDTH - BAR_LEFT - BAR_RIGHT
    drawn = []
    for place, name in enumerate(names):
        x = 20 + 150 * place
        drawn.append(
            f'<rect x="{x}" y="8" width="10" height="10" fill="{COLOURS[place]}"/>'
            f'<text x="{x + 14}" y="17">{escape(name)}</text>'
        )
    for row, (label, values) in enumerate(rows):
        top, x_ = BAR_TOP + BAR_STEP * row, BAR_LEFT
        drawn.append(
            f'<text x="{BAR_LEFT - 10:g}" y="{top + 14}" text-anchor="end">{escape(label)}</text>'
        )
        for place, value in enumerate(values):
            wide = max(0.0, value / longest * room)
            drawn.append(
                f'<rect x="{x_:.1f}" y="{top}" width="{wide:.1f}" height="19" fill="{COLOURS[place]}"/>'
            )
            x_ += wide
        drawn.append(f'<text x="{x_ + 6:.1f}" y="{top + 14}">{math.fsum(values):.4g} {unit}</text>')
    return Picture("", title, "".join(drawn), BAR_TOP + BAR_STEP * len(rows) + 12)


def pairs(title: str, unit: str, rows: Sequence[tuple[str, float, float]]) -> Picture:
    """Return a bar for the wall and one for the answer of each row.

    Args:
        title: of the chart.
        unit: of the values.
        rows: what it is, the wall's value, the answer's.
    """
    found: list[tuple[str, tuple[float, float]]] = []
    for name, wall, answer in rows:
        found += [(name, (0.0, wall)), ("", (answer, 0.0))]
    return bars(title, ("answer", "wall"), found, unit)


def _end_of(value: float) -> float:
    """Return where an axis ends: at a count itself, else at a round number."""
    return value if value and float(value).is_integer() else nice(value)
