"""Latencies as pictures: SVG written by hand, for a browser. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol
from xml.sax.saxutils import escape

from harness.stats import percentile

WIDTH, HEIGHT = 880, 330
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 44, 46
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #333 } .title { font-size: 15px; font-weight: 600 }
.grid { stroke: #ddd } .axis { stroke: #333 } .target { stroke: #c33; stroke-dasharray: 5 4 }
.target-text { fill: #c33 } .line { fill: none; stroke: #1f66b0; stroke-width: 2 }
.dot { fill: #1f66b0; fill-opacity: .45 } .bar { fill: #7fb0dd } .mark { stroke: #1a7f37 } .mark-text { fill: #1a7f37 }
"""


class Picture(Protocol):
    """What can be drawn below other things."""

    @property
    def height(self) -> int:
        """Of what is drawn."""
        ...

    def draw(self, top: int) -> str:
        """Return SVG elements, the uppermost at `top`."""
        ...


class Series(NamedTuple):
    """Latencies of one part of a benchmark."""

    title: str
    values_ms: Sequence[float]
    at_s: Sequence[float]
    """When each was begun, seconds since the first."""
    targets_ms: Sequence[tuple[str, float]] = ()
    """Lines to draw: what they stand for, and where."""
    marks: Sequence[tuple[str, float]] = ()
    """Moments to mark over time: what happened, and when, seconds since the first."""

    @property
    def height(self) -> int:
        """Two fields: how many were how fast, and how that went over time."""
        return 2 * HEIGHT

    def draw(self, top: int) -> str:
        """Return both fields."""
        return _distribution(self, top) + "\n" + _over_time(self, top + HEIGHT)


class Box(NamedTuple):
    """A field in which things are drawn; the value axis is logarithmic."""

    top: int
    low: float
    high: float

    def x_of(self, value: float) -> float:
        """Return where a value stands on the horizontal axis."""
        share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y_of(self, value: float) -> float:
        """Return where a value stands on the vertical axis."""
        share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        return self.bottom - share * (self.bottom - self.top - TOP)

    @property
    def bottom(self) -> int:
        """Where the horizontal axis lies."""
        return self.top + HEIGHT - BOTTOM


def draw(pictures: Sequence[Picture]) -> str:
    """Return one SVG document with all of them, one below the other.

    Raises:
        ValueError: a series without values.
    """
    parts, height = [], 0
    for picture in pictures:
        parts.append(picture.draw(height))
        height += picture.height
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">\n'
        f'<style>{STYLE}</style>\n<rect width="{WIDTH}" height="{height}" fill="#fff"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def ticks_between(low: float, high: float) -> list[float]:
    """Return round numbers (1, 2, 5 and their tenfolds) from `low` to `high`."""
    found = []
    exponent = math.floor(math.log10(low))
    while 10.0**exponent <= high:
        found += [factor * 10.0**exponent for factor in (1, 2, 5)]
        exponent += 1
    return [tick for tick in found if low <= tick * 1.0000001 and tick <= high * 1.0000001]


def _range(series: Series) -> tuple[float, float]:
    values = [*series.values_ms, *(value for _, value in series.targets_ms)]
    low, high = max(min(values), 0.01), max(*values, 0.02)
    return low / 1.15, max(high * 1.15, low * 2)


DOTS_MAX = 4000
"""A picture of more would be megabytes, and no eye could tell the dots apart."""


def _distribution(series: Series, top: int) -> str:
    """A histogram with bins of equal width on the logarithmic axis, and the cumulated share as a line."""
    box = Box(top, *_range(series))
    bins = [0] * 60
    for value in series.values_ms:
        share = (box.x_of(value) - LEFT) / (WIDTH - LEFT - RIGHT)
        bins[min(len(bins) - 1, int(share * len(bins)))] += 1
    width = (WIDTH - LEFT - RIGHT) / len(bins)
    field = HEIGHT - TOP - BOTTOM
    parts = [title(f"{series.title}: {len(series.values_ms)} samples", top)]
    for tick in ticks_between(box.low, box.high):
        parts.append(_vertical(box, tick, "grid", f"{tick:g}"))
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = box.bottom - share * field
        parts.append(text(LEFT - 8, y + 4, f"{share:.0%}", anchor="end"))
    for index, count in enumerate(bins):
        if count:
            high = count / max(bins) * field
            parts.append(
                f'<rect class="bar" x="{LEFT + index * width:.1f}" y="{box.bottom - high:.1f}" '
                f'width="{width - 1:.1f}" height="{high:.1f}"/>'
            )
    ordered = sorted(series.values_ms)
    steps = [
        f"{box.x_of(value):.1f},{box.bottom - (rank + 1) / len(ordered) * field:.1f}"
        for rank, value in enumerate(ordered)
        if rank % max(1, len(ordered) // 500) == 0 or rank >= len(ordered) - 20
    ]
    parts.append(f'<polyline class="line" points="{" ".join(steps)}"/>')
    for name, rank in (("p50", 50), ("p99", 99)):
        value = percentile(ordered, rank)
        parts.append(_vertical(box, value, "mark", f"{name} {value:.1f}", above=True))
    for name, value in series.targets_ms:
        parts.append(_vertical(box, value, "target", name))
    parts.append(text(WIDTH - RIGHT, box.bottom + 34, "milliseconds", anchor="end"))
    parts.append(_axis(box))
    return "\n".join(parts)


def _shown(series: Series) -> list[tuple[float, float]]:
    """Return the samples to draw: where they are many, one of so many, and all of the slowest hundredth."""
    samples = list(zip(series.at_s, series.values_ms, strict=True))
    step = -(-len(samples) // DOTS_MAX)
    if step <= 1:
        return samples
    slow = percentile(sorted(series.values_ms), 99)
    return [one for index, one in enumerate(samples) if index % step == 0 or one[1] > slow]


def _over_time(series: Series, top: int) -> str:
    """Each sample as a dot: when it was begun, and how long it took."""
    box = Box(top, *_range(series))
    end_s = max(*series.at_s, 0.001)
    parts = [title(f"{series.title}: over time (milliseconds)", top)]
    for tick in ticks_between(box.low, box.high):
        y = box.y_of(tick)
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
        parts.append(text(LEFT - 8, y + 4, f"{tick:g}", anchor="end"))
    for name, value in series.targets_ms:
        y = box.y_of(value)
        parts.append(
            f'<line class="target" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
        parts.append(text(WIDTH - RIGHT, y - 4, name, anchor="end", style="target-text"))
    for name, at_s in series.marks:
        x = LEFT + at_s / end_s * (WIDTH - LEFT - RIGHT)
        parts.append(
            f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{top + TOP}" y2="{box.bottom}"/>'
        )
        parts.append(text(x, top + TOP - 6, name, anchor="middle", style="mark-text"))
    for at_s, value in _shown(series):
        x = LEFT + at_s / end_s * (WIDTH - LEFT - RIGHT)
        parts.append(f'<circle class="dot" cx="{x:.1f}" cy="{box.y_of(value):.1f}" r="2"/>')
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        x = LEFT + share * (WIDTH - LEFT - RIGHT)
        parts.append(text(x, box.bottom + 18, f"{share * end_s:.3g} s", anchor="middle"))
    parts.append(_axis(box))
    return "\n".join(parts)


def title(words: str, top: int) -> str:
    """Return the title of a field."""
    return f'<text class="title" x="{LEFT}" y="{top + 18}">{escape(words)}</text>'


def text(x: float, y: float, words: str, *, anchor: str = "start", style: str = "") -> str:
    """Return words at a place."""
    return f'<text class="{style}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _vertical(box: Box, value: float, style: str, label: str, *, above: bool = False) -> str:
    x = box.x_of(value)
    y = box.top + TOP - 6 if above else box.bottom + (18 if style == "grid" else 34)
    line = (
        f'<line class="{style}" x1="{x:.1f}" x2="{x:.1f}" y1="{box.top + TOP}" y2="{box.bottom}"/>'
    )
    return line + text(x, y, label, anchor="middle", style=f"{style}-text")


def _axis(box: Box) -> str:
    return (
        f'<path class="axis" fill="none" d="M{LEFT} {box.top + TOP}V{box.bottom}H{WIDTH - RIGHT}"/>'
    )
