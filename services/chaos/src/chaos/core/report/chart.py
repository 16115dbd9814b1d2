"""Charts as SVG, written by hand: lines over an axis, marks, stacked bars. For people who look for a minute."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

import msgspec

WIDTH, HEIGHT = 900, 260
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 30, 34
COLOURS = ("#1f66b0", "#c0392b", "#1a7f37", "#b8860b", "#6b3fa0", "#5a6570")
MARKS_MAX = 12
MARK_ROWS = 4
X_TICKS, Y_TICKS = 8, 5
BAR_LEFT, BAR_RIGHT, BAR_STEP = 230, 90, 26
TITLE = 34
NAMESPACE = ' xmlns="http://www.w3.org/2000/svg"'
"""A file of its own needs it; it is a name, nothing is fetched from there."""
LETTER = 6
"""Width of one in a legend."""
TURN_BACK = 0.7
"""What stands further to the right is written to the left of its mark."""
STYLE = """
svg { width: 100%; height: auto } svg text { font: 11px system-ui, sans-serif; fill: #444 }
.grid { stroke: #e6e6e6 } .mark { stroke: #888; stroke-dasharray: 3 3 } .level { stroke: #b3261e; stroke-dasharray: 5 4 }
svg .mark-text { fill: #777; font-size: 10px } svg .title { font-size: 14px; font-weight: 600 }
"""

Point = tuple[float, float]


class Picture(msgspec.Struct, frozen=True):
    """One picture."""

    name: str
    """Of its file."""
    title: str
    body: str
    """What stands inside of the `svg` element."""
    height: int = HEIGHT

    def to_figure(self) -> str:
        """Return it for a page that has `STYLE`, with its title above it."""
        drawing = f"<svg {self._box(0)}>{self.body}</svg>"
        return f"<figure><figcaption>{escape(self.title)}</figcaption>{drawing}</figure>"

    def to_file(self) -> str:
        """Return it as a file of its own, its title in it."""
        head = f'<text x="{LEFT}" y="-12" class="title">{escape(self.title)}</text>'
        back = (
            f'<rect x="0" y="-{TITLE}" width="{WIDTH}" height="{self.height + TITLE}" fill="#fff"/>'
        )
        return f"<svg{NAMESPACE} {self._box(TITLE)}><style>{STYLE}</style>{back}{head}{self.body}</svg>\n"

    def _box(self, above: int) -> str:
        box = f"0 -{above} {WIDTH} {self.height + above}"
        return f'viewBox="{box}" role="img" aria-label="{escape(self.title)}"'


class Line(msgspec.Struct, frozen=True):
    """One line of a chart."""

    name: str
    points: Sequence[Point]
    is_step: bool = False
    is_dots: bool = False


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """A chart's axes and what is marked on them."""

    name: str
    title: str
    x_max: float
    y_max: float
    y_name: str = ""
    x_name: str = "seconds"
    marks: Sequence[tuple[float, str]] = ()
    """Moments on the horizontal axis."""
    levels: Sequence[tuple[float, str]] = ()
    """Values on the vertical axis."""

    def x(self, value: float) -> float:
        """Return where a value stands."""
        return LEFT + min(1.0, value / max(self.x_max, 1e-9)) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        """Return where a value stands."""
        share = min(1.0, value / max(self.y_max, 1e-9))
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def chart(frame: Frame, lines: Sequence[Line]) -> Picture:
    """Return a chart of lines."""
    parts = [*_axes(frame), _legend([line.name for line in lines])]
    for place, line in enumerate(lines):
        colour = COLOURS[place % len(COLOURS)]
        if line.is_dots:
            parts += [
                f'<circle cx="{frame.x(x):.1f}" cy="{frame.y(y):.1f}" r="2" fill="{colour}" fill-opacity=".5"/>'
                for x, y in line.points
            ]
        elif line.points:
            parts.append(
                f'<path d="{_path(frame, line)}" fill="none" stroke="{colour}" stroke-width="1.8"/>'
            )
    return Picture(frame.name, frame.title, "".join(parts))


def bars(
    name: str,
    title: str,
    parts: Sequence[str],
    rows: Sequence[tuple[str, Sequence[float]]],
    unit: str = "s",
) -> Picture:
    """Return horizontal bars, each stacked of named parts.

    Args:
        name: of its file.
        title: of the chart.
        parts: their names.
        rows: each bar's name, and its parts.
        unit: of these; empty: a count.
    """
    longest = max((math.fsum(values) for _, values in rows), default=1.0) or 1.0
    room = WIDTH - BAR_LEFT - BAR_RIGHT
    drawn = [_legend(parts)]
    for row, (label, values) in enumerate(rows):
        top, x = TOP + 12 + BAR_STEP * row, float(BAR_LEFT)
        drawn.append(
            f'<text x="{BAR_LEFT - 10}" y="{top + 14}" text-anchor="end">{escape(label)}</text>'
        )
        for place, value in enumerate(values):
            wide = max(0.0, value / longest * room)
            drawn.append(
                f'<rect x="{x:.1f}" y="{top}" width="{wide:.1f}" height="19" '
                f'fill="{COLOURS[place % len(COLOURS)]}"><title>{escape(parts[place])} {value:.4g} {unit}</title></rect>'
            )
            x += wide
        drawn.append(f'<text x="{x + 6:.1f}" y="{top + 14}">{math.fsum(values):.4g} {unit}</text>')
    return Picture(name, title, "".join(drawn), TOP + 12 + BAR_STEP * len(rows) + 10)


def steps_of(values: Sequence[float]) -> list[Point]:
    """Return the cumulated share of values, as the points of a step line."""
    ordered = sorted(values)
    found: list[Point] = [(0.0, 0.0)]
    for rank, value in enumerate(ordered):
        found += [(value, rank / len(ordered)), (value, (rank + 1) / len(ordered))]
    return found


def ticks(most: float, count: int) -> list[float]:
    """Return round values from 0 to at most `most`, about so many."""
    step = nice(most / count)
    return [place * step for place in range(int(most / step + 1e-9) + 1)]


def nice(value: float) -> float:
    """Return a round number that is not smaller."""
    if value <= 0:
        return 1.0
    power: float = 10.0 ** math.floor(math.log10(value))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= value)


def _path(frame: Frame, line: Line) -> str:
    found: list[str] = []
    before: float | None = None
    for place, (x, y) in enumerate(line.points):
        if line.is_step and y == before and place + 1 < len(line.points):
            continue  # it goes on as it was
        if found and line.is_step:
            found.append(f"H{frame.x(x):.1f}")
        found.append(("L" if found else "M") + f"{frame.x(x):.1f} {frame.y(y):.1f}")
        before = y
    return "".join(found)


def _axes(frame: Frame) -> list[str]:
    parts = []
    for value in ticks(frame.y_max, Y_TICKS):
        y = frame.y(value)
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>'
        )
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
    below = HEIGHT - BOTTOM + 16
    for value in ticks(frame.x_max, X_TICKS):
        x = frame.x(value)
        parts.append(f'<text x="{x:.1f}" y="{below}" text-anchor="middle">{value:g}</text>')
    parts.append(
        f'<text x="{WIDTH - RIGHT}" y="{below + 12}" text-anchor="end">{escape(frame.x_name)}</text>'
    )
    for place, (at, name) in enumerate(frame.marks[:MARKS_MAX]):
        x = frame.x(at)
        is_far = x > LEFT + TURN_BACK * (WIDTH - LEFT - RIGHT)
        anchor, beside = ("end", x - 3) if is_far else ("start", x + 3)
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" class="mark"/>'
        )
        parts.append(
            f'<text x="{beside:.1f}" y="{TOP + 10 + 12 * (place % MARK_ROWS)}" text-anchor="{anchor}" '
            f'class="mark-text">{escape(name)}</text>'
        )
    for value, name in frame.levels:
        y = frame.y(value)
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="level"/>'
        )
        parts.append(
            f'<text x="{WIDTH - RIGHT}" y="{y - 3:.1f}" text-anchor="end" class="mark-text">{escape(name)}</text>'
        )
    parts.append(
        f'<text x="{LEFT - 6}" y="{TOP - 8}" text-anchor="end">{escape(frame.y_name)}</text>'
    )
    return parts


def _legend(names: Sequence[str]) -> str:
    x, parts = LEFT + 10, []
    for place, name in enumerate(names):
        colour = COLOURS[place % len(COLOURS)]
        parts.append(f'<rect x="{x}" y="{TOP - 20}" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{x + 14}" y="{TOP - 11}">{escape(name)}</text>')
        x += 34 + LETTER * len(name)
    return "".join(parts)
