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

Point = tuple[float, float]


class Line(msgspec.Struct, frozen=True):
    """One line of a chart."""

    name: str
    points: Sequence[Point]
    is_step: bool = False
    is_dots: bool = False


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """A chart's axes and what is marked on them."""

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


def chart(frame: Frame, lines: Sequence[Line]) -> str:
    """Return a chart of lines."""
    parts = [*_axes(frame)]
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
        parts.append(_legend(place, line.name, colour))
    return _svg(frame.title, parts)


def bars(
    title: str, names: Sequence[str], rows: Sequence[tuple[str, Sequence[float]]], unit: str
) -> str:
    """Return horizontal bars, each stacked of named parts.

    Args:
        title: of the chart.
        names: of the parts.
        rows: each bar's name, and its parts.
        unit: of the values.
    """
    longest = max((sum(parts) for _, parts in rows), default=1.0) or 1.0
    height = TOP + 26 * len(rows) + BOTTOM + 10
    room = WIDTH - 190 - 70
    parts_: list[str] = []
    for place, name in enumerate(names):
        parts_.append(_legend(place, name, COLOURS[place % len(COLOURS)], step=130))
    for row, (name, values) in enumerate(rows):
        top, x = TOP + 12 + 26 * row, 190.0
        parts_.append(f'<text x="180" y="{top + 14}" text-anchor="end">{escape(name)}</text>')
        for place, value in enumerate(values):
            wide = value / longest * room
            parts_.append(
                f'<rect x="{x:.1f}" y="{top}" width="{max(0.0, wide):.1f}" height="19" '
                f'fill="{COLOURS[place % len(COLOURS)]}"><title>{escape(names[place])} {value:.3f} {unit}</title></rect>'
            )
            x += wide
        parts_.append(f'<text x="{x + 6:.1f}" y="{top + 14}">{sum(values):.2f} {unit}</text>')
    return _svg(title, parts_, height)


def steps_of(values: Sequence[float]) -> list[Point]:
    """Return the cumulated share of values, as the points of a step line."""
    ordered = sorted(values)
    found: list[Point] = [(0.0, 0.0)]
    for rank, value in enumerate(ordered):
        found += [(value, rank / len(ordered)), (value, (rank + 1) / len(ordered))]
    return found


def nice(value: float) -> float:
    """Return a round number that is not smaller."""
    if value <= 0:
        return 1.0
    power: float = 10.0 ** math.floor(math.log10(value))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= value)


def _path(frame: Frame, line: Line) -> str:
    found: list[str] = []
    for x, y in line.points:
        at = f"{frame.x(x):.1f} {frame.y(y):.1f}"
        if found and line.is_step:
            found.append(f"H{frame.x(x):.1f}")
        found.append(("L" if found else "M") + at)
    return "".join(found)


def _axes(frame: Frame) -> list[str]:
    parts = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y, x = frame.y(share * frame.y_max), frame.x(share * frame.x_max)
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>'
        )
        parts.append(
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{share * frame.y_max:g}</text>'
        )
        name = f" {frame.x_name}" if share == 1.0 else ""
        anchor = "end" if share == 1.0 else "middle"
        parts.append(
            f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="{anchor}">{share * frame.x_max:g}{name}</text>'
        )
    for place, (at, name) in enumerate(frame.marks[:MARKS_MAX]):
        x = frame.x(at)
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" class="mark"/>'
        )
        parts.append(
            f'<text x="{x + 3:.1f}" y="{TOP + 10 + 12 * (place % 4)}" class="mark-text">{escape(name)}</text>'
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


def _legend(place: int, name: str, colour: str, step: int = 150) -> str:
    x = LEFT + 10 + step * place
    return (
        f'<rect x="{x}" y="{TOP - 20}" width="10" height="10" fill="{colour}"/>'
        f'<text x="{x + 14}" y="{TOP - 11}">{escape(name)}</text>'
    )


def _svg(title: str, parts: Sequence[str], height: int = HEIGHT) -> str:
    return (
        f"<figure><figcaption>{escape(title)}</figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">'
        + "".join(parts)
        + "</svg></figure>"
    )
