"""Pictures as files of their own: charts of the chaos lab's report, one below the other. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from chaos.core.report.chart import WIDTH, Frame, Line, Picture, Point, bars, chart, nice

__all__ = ["Line", "Picture", "Point", "bars", "over", "pairs", "picture"]

TITLE = 26
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #333 } .title { font-size: 15px; font-weight: 600 }
.grid { stroke: #ddd } .mark { stroke: #8a8f96; stroke-dasharray: 3 3 } .level { stroke: #c33; stroke-dasharray: 5 4 }
.mark-text { fill: #555; font-size: 11px }
"""


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
    return bars("", title, ("answer", "wall"), found, unit)


def _end_of(value: float) -> float:
    """Return where an axis ends: at a count itself, else at a round number."""
    return value if value and float(value).is_integer() else nice(value)
