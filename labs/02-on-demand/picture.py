"""The picture: the time to the first instruction as the rate climbs, and what a start consists of."""

from __future__ import annotations

from labs.drawing import Line, Point, bars, over, picture
from labs.frame import Figures

PARTS = ("process", "imports", "connection", "first_instruction")


def draw(wall: Figures, answer: Figures) -> str:
    """Return the picture."""
    parts = tuple(wall[f"{name}_ms"] for name in PARTS)
    rows = [
        ("all on demand", (*parts, 0.0)),
        ("forked", (0.0, 0.0, 0.0, 0.0, answer["alone_p50_ms"])),
    ]
    return picture(
        over(
            "Time to the first instruction, p95",
            "ms",
            "requests a second",
            [Line("forked", _p95(answer)), Line("all on demand", _p95(wall))],
        ),
        bars("", "One start, alone", (*PARTS, "all of it"), rows, "ms"),
    )


def _p95(told: Figures) -> list[Point]:
    return [(rate, p95_ms) for rate, _, p95_ms in told["rates"]]
