"""A trace as a picture: each span a bar below its parent, links as dashed lines. SVG written by hand. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape

from shared.testing.otlp import Received

WIDTH, NAMES, RIGHT = 1000, 330, 70
ROW, TOP, BOTTOM = 22, 78, 34
INDENT = 12
BAR_MIN = 2.0
TICKS = 6
COLOURS = {
    "agent-sandbox-cli": "#8250df",
    "gateway": "#bf8700",
    "pool-manager": "#cf6a17",
    "worker-agent": "#1f66b0",
}
OTHER = "#57606a"
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #24292f } .title { font-size: 15px; font-weight: 600 }
.small { font-size: 11px; fill: #57606a } .grid { stroke: #e3e6ea } .row { fill: #f6f8fa }
.link { fill: none; stroke: #cf222e; stroke-dasharray: 4 3 } .failed { stroke: #cf222e; stroke-width: 2 }
"""
DRAWN_LINKS = ("previous_attempt", "lost_attempt")
"""Links to a span's own parent say nothing that the picture does not show."""


def in_tree_order(spans: Sequence[Received]) -> list[tuple[int, Received]]:
    """Return each span with its depth: children below their parent, by the time of their beginning."""
    known = {span.id for span in spans}
    below: dict[str, list[Received]] = {}
    for span in sorted(spans, key=lambda one: (one.start_ns, one.end_ns)):
        below.setdefault(span.parent if span.parent in known else "", []).append(span)
    rows: list[tuple[int, Received]] = []

    def walk(parent: str, depth: int) -> None:
        for span in below.get(parent, []):
            rows.append((depth, span))
            walk(span.id, depth + 1)

    walk("", 0)
    return rows


def draw(spans: Sequence[Received], title: str) -> str:
    """Return the picture of one trace.

    Raises:
        ValueError: there is no span.
    """
    if not spans:
        raise ValueError("a trace without spans can't be drawn")
    rows = in_tree_order(spans)
    begin = min(span.start_ns for span in spans)
    length = max(1, max(span.end_ns for span in spans) - begin)
    height = TOP + ROW * len(rows) + BOTTOM

    def x(at_ns: int) -> float:
        return NAMES + (at_ns - begin) / length * (WIDTH - NAMES - RIGHT)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
        f'<style>{STYLE}</style><rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        f'<text class="title" x="12" y="24">{escape(title)}</text>',
        *_legend(spans),
    ]
    parts += [
        f'<rect class="row" x="0" y="{TOP + ROW * number}" width="{WIDTH}" height="{ROW}"/>'
        for number in range(0, len(rows), 2)
    ]
    for at in range(begin, begin + length, step_ns(length)):
        parts.append(
            f'<line class="grid" x1="{x(at):.1f}" y1="{TOP}" x2="{x(at):.1f}" y2="{height - BOTTOM}"/>'
            f'<text class="small" text-anchor="middle" x="{x(at):.1f}" y="{height - 14}">'
            f"{(at - begin) / 1e6:,.0f} ms</text>"
        )
    places: dict[str, tuple[float, float]] = {}
    for number, (depth, span) in enumerate(rows):
        parts.append(_bar(span, depth, TOP + ROW * number, (x(span.start_ns), x(span.end_ns))))
        places[span.id] = (x(span.start_ns), TOP + ROW * (number + 0.5))
    parts += _links(spans, places)
    return "\n".join([*parts, "</svg>"]) + "\n"


def step_ns(length_ns: int) -> int:
    """Return the distance of the lines over time: 1, 2 or 5 times a power of ten, some `TICKS` of them."""
    about = max(length_ns / TICKS, 1.0)
    power = 10 ** math.floor(math.log10(about))
    return int(power * next(factor for factor in (1, 2, 5, 10) if factor * power >= about))


def _legend(spans: Sequence[Received]) -> list[str]:
    parts, left = [], 12
    for service in sorted({span.service for span in spans}):
        colour = COLOURS.get(service, OTHER)
        parts.append(
            f'<rect x="{left}" y="42" width="12" height="12" rx="2" fill="{colour}"/>'
            f'<text class="small" x="{left + 17}" y="52">{escape(service)}</text>'
        )
        left += 40 + 7 * len(service)
    parts.append(
        f'<path class="link" d="M{left} 48 h24"/><text class="small" x="{left + 30}" y="52">link</text>'
        f'<rect class="failed" x="{left + 70}" y="43" width="12" height="10" rx="2" fill="#fff"/>'
        f'<text class="small" x="{left + 88}" y="52">ended with an error</text>'
    )
    return parts


def _bar(span: Received, depth: int, top: float, ends: tuple[float, float]) -> str:
    colour = COLOURS.get(span.service, OTHER)
    width = max(BAR_MIN, ends[1] - ends[0])
    took_ms = (span.end_ns - span.start_ns) / 1e6
    said = f"{took_ms:,.1f} ms" if took_ms < 100 else f"{took_ms:,.0f} ms"
    failed = ' class="failed"' if span.failed else ""
    return (
        f'<text x="{12 + INDENT * depth}" y="{top + 15:.0f}">{escape(span.name)}</text>'
        f'<rect{failed} x="{ends[0]:.1f}" y="{top + 5:.0f}" width="{width:.1f}" height="{ROW - 10}" rx="2" '
        f'fill="{colour}"/>'
        f'<text class="small" x="{ends[0] + width + 5:.1f}" y="{top + 15:.0f}">{said}</text>'
    )


def _links(spans: Sequence[Received], places: dict[str, tuple[float, float]]) -> list[str]:
    parts = []
    for span in spans:
        for _, other, why in span.links:
            if why in DRAWN_LINKS and other in places:
                (x1, y1), (x2, y2) = places[span.id], places[other]
                bend = min(x1, x2) - 26
                parts.append(
                    f'<path class="link" d="M{x1:.1f} {y1:.1f} C{bend:.1f} {y1:.1f} {bend:.1f} {y2:.1f} {x2:.1f} {y2:.1f}">'
                    f"<title>{escape(why)}</title></path>"
                )
    return parts
