"""The curves as a picture: SVG written by hand. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from xml.sax.saxutils import escape

from pool_manager.backtest.compare import OURS, Curve
from pool_manager.backtest.replay import Outcome

WIDTH, HEIGHT = 880, 360
LEFT, RIGHT, TOP, BOTTOM = 70, 170, 44, 50
COLOURS = ("#1f66b0", "#c0392b", "#1a7f37", "#8e44ad", "#888", "#b9770e", "#0e8c8c")
COLD_SHARE_MIN = 0.0005
WAIT_S_MIN = 0.01
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#333}.title{font-size:15px;font-weight:600}"
    ".grid{stroke:#ddd}.axis{stroke:#333}"
)


class _Axis:
    """A logarithmic axis."""

    def __init__(self, values: Sequence[float], begin: float, end: float) -> None:
        self.low = min(values) / 1.2
        self.high = max(max(values) * 1.2, self.low * 2)
        self._begin, self._end = begin, end

    def at(self, value: float) -> float:
        """Return where a value stands."""
        share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        return self._begin + min(share, 1.0) * (self._end - self._begin)

    def ticks(self) -> list[float]:
        """Return round numbers on it."""
        first = math.floor(math.log10(self.low))
        last = math.ceil(math.log10(self.high))
        found = [digit * 10.0**power for power in range(first, last + 1) for digit in (1, 2, 5)]
        return [tick for tick in found if self.low <= tick <= self.high]


def draw(title: str, curves: Sequence[Curve]) -> str:
    """Return an SVG document: idle pod-seconds against the cold share, and against the P99 wait."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{2 * HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {2 * HEIGHT}">\n<style>{STYLE}</style>\n'
        f'<rect width="{WIDTH}" height="{2 * HEIGHT}" fill="#fff"/>\n{fields(title, curves, 0)}\n</svg>\n'
    )


def fields(title: str, curves: Sequence[Curve], top: int) -> str:
    """Return the two fields as SVG elements, the uppermost at `top`."""
    waits = f"{title}: activations that wait for a pod"
    return "\n".join(
        (
            _field(waits, curves, _cold, top, "{:.3g}"),
            _field(f"{title}: P99 wait, seconds", curves, _wait, top + HEIGHT, "{:g}"),
        )
    )


def _cold(outcome: Outcome) -> float:
    return max(outcome.cold_share, COLD_SHARE_MIN)


def _wait(outcome: Outcome) -> float:
    return min(max(outcome.wait_p99_s, WAIT_S_MIN), 3600.0)


def _field(
    title: str, curves: Sequence[Curve], value: Callable[[Outcome], float], top: int, form: str
) -> str:
    shown = [
        point.outcome for curve in curves for point in curve.points if point.outcome.idle_s > 0
    ]
    across = _Axis([outcome.idle_s for outcome in shown], LEFT, WIDTH - RIGHT)
    up = _Axis([value(outcome) for outcome in shown], top + HEIGHT - BOTTOM, top + TOP)
    parts = [f'<text class="title" x="{LEFT}" y="{top + 24}">{escape(title)}</text>']
    for tick in across.ticks():
        x = across.at(tick)
        parts.append(_line(x, top + TOP, x, top + HEIGHT - BOTTOM))
        parts.append(_text(x, top + HEIGHT - BOTTOM + 18, f"{tick:g}", "middle"))
    for tick in up.ticks():
        y = up.at(tick)
        parts.append(_line(LEFT, y, WIDTH - RIGHT, y))
        parts.append(_text(LEFT - 8, y + 4, form.format(tick), "end"))
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(_text(middle, top + HEIGHT - 12, "idle pod-seconds per activation", "middle"))
    for number, curve in enumerate(curves):
        colour = COLOURS[number % len(COLOURS)]
        dots = [
            (across.at(point.outcome.idle_s), up.at(value(point.outcome)))
            for point in sorted(curve.points, key=lambda point: point.outcome.idle_s)
            if point.outcome.idle_s > 0
        ]
        width = 3 if curve.policy == OURS else 1.2
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in dots)
        parts.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="{width}" points="{line}"/>'
        )
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in dots]
        y = top + TOP + 18 * number + 8
        parts.append(
            f'<rect x="{WIDTH - RIGHT + 16}" y="{y - 9}" width="10" height="10" fill="{colour}"/>'
        )
        parts.append(_text(WIDTH - RIGHT + 32, y, curve.policy, "start"))
    return "\n".join(parts)


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="grid" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
