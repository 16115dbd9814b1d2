"""What happened when, as a picture: lines over time with faults marked, several fields one below the other. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from harness.pictures import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, text, ticks_between, title

COLOURS = ("#1f66b0", "#d9822b", "#1a7f37", "#8a4fb0")
MARKS = ("#c33", "#555", "#8a4fb0", "#0aa")


class Field(NamedTuple):
    """One field: named lines over the same time."""

    title: str
    lines: Mapping[str, Sequence[tuple[float, float]]]
    """Name -> (seconds, value), in order of time."""
    logarithmic: bool = False


class Timeline(NamedTuple):
    """Fields over the same seconds, with the moments that matter."""

    end_s: float
    fields: Sequence[Field]
    marks: Mapping[str, Sequence[float]]
    """Kind of event -> when, seconds."""

    @property
    def height(self) -> int:
        """Of the picture."""
        return HEIGHT * len(self.fields)

    def draw(self, top: int) -> str:
        """Return the fields as SVG elements."""
        return "\n".join(
            _draw_field(self, field, top + index * HEIGHT)
            for index, field in enumerate(self.fields)
        )


def _draw_field(timeline: Timeline, field: Field, top: int) -> str:
    bottom = top + HEIGHT - BOTTOM
    high_y = top + TOP

    def x_of(seconds: float) -> float:
        return LEFT + seconds / max(timeline.end_s, 0.001) * (WIDTH - LEFT - RIGHT)

    values = [value for line in field.lines.values() for _, value in line]
    low, high = _range(values, logarithmic=field.logarithmic)

    def y_of(value: float) -> float:
        if field.logarithmic:
            share = math.log(max(value, low) / low) / math.log(high / low)
        else:
            share = (value - low) / (high - low)
        return bottom - share * (bottom - high_y)

    parts = [title(field.title, top)]
    for tick in ticks_between(low, high) if field.logarithmic else _even_ticks(high):
        y = y_of(tick)
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
        parts.append(text(LEFT - 8, y + 4, f"{tick:g}", anchor="end"))
    for index, (kind, moments) in enumerate(timeline.marks.items()):
        colour = MARKS[index % len(MARKS)]
        y = high_y + 6 * index
        parts += [
            f'<line stroke="{colour}" class="moment" x1="{x_of(at):.1f}" x2="{x_of(at):.1f}" '
            f'y1="{y - 3}" y2="{y + 3 if len(moments) > 30 else bottom}"/>'
            for at in moments
        ]
        parts.append(
            f'<text x="{LEFT + 150 * index}" y="{bottom + 36}" style="fill:{colour}">'
            f"| {kind} ({len(moments)})</text>"
        )
    for index, (name, line) in enumerate(field.lines.items()):
        colour = COLOURS[index % len(COLOURS)]
        points = " ".join(f"{x_of(at):.1f},{y_of(value):.1f}" for at, value in line)
        parts.append(f'<polyline fill="none" stroke="{colour}" points="{points}"/>')
        parts.append(
            f'<text x="{WIDTH - RIGHT - 150 * index}" y="{top + 18}" text-anchor="end" '
            f'style="fill:{colour}">{name}</text>'
        )
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        at = share * timeline.end_s
        parts.append(text(x_of(at), bottom + 18, f"{at:.3g} s", anchor="middle"))
    parts.append(f'<path class="axis" fill="none" d="M{LEFT} {high_y}V{bottom}H{WIDTH - RIGHT}"/>')
    return "\n".join(parts)


def _range(values: Sequence[float], *, logarithmic: bool) -> tuple[float, float]:
    high = max(values, default=1.0) * 1.1 or 1.0
    if not logarithmic:
        return 0.0, high
    low = max(min(values, default=1.0), 0.01) / 1.15
    return low, max(high, low * 2)


def _even_ticks(high: float) -> list[float]:
    """Return about four round numbers from 0 to `high`."""
    step = 10.0 ** math.floor(math.log10(high / 2))
    step *= next(factor for factor in (1, 2, 5, 10) if high / (step * factor) <= 5)
    return [step * index for index in range(int(high / step) + 1)]
