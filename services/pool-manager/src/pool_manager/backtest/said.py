"""What a backtest says: tables for people, one object for programs. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pool_manager.backtest.compare import Curve
from pool_manager.backtest.replay import Outcome

HEAD = (
    "policy",
    "setting",
    "idle pod-s",
    "cold share",
    "P50 wait s",
    "P99 wait s",
    "P99.9 wait s",
    "pods",
)


def tables(curves: Sequence[Curve], cold_share: float | None) -> str:
    """Return all points of all curves, and what each policy costs at a share; None: there is nothing to compare."""
    rows = [
        (curve.policy if number == 0 else "", point.setting, *_cells(point.outcome))
        for curve in curves
        for number, point in enumerate(curve.points)
    ]
    points = table(HEAD, rows)
    if cold_share is None:
        return points
    at = [
        (curve.policy, "never" if (idle := curve.idle_at(cold_share)) is None else f"{idle:.1f}")
        for curve in curves
    ]
    head = ("policy", f"idle pod-s at {cold_share:.2%} cold")
    return f"{points}\n\n{table(head, at)}"


def _cells(outcome: Outcome) -> tuple[str, ...]:
    waits = (outcome.wait_p50_s, outcome.wait_p99_s, outcome.wait_p999_s)
    return (
        f"{outcome.idle_s:.1f}",
        f"{outcome.cold_share:.2%}",
        *("never" if math.isinf(wait) else f"{wait:.2f}" for wait in waits),
        f"{outcome.starts:.2f}",
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in plain text: words to the left, numbers to the right."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    lines = []
    for row in (head, *rows):
        cells = [
            cell.ljust(width)
            if (column < 2 and len(head) > 2) or column == 0
            else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def as_object(name: str, curves: Sequence[Curve], cold_share: float) -> dict[str, Any]:
    """Return the same for programs; a wait that never ends is null."""
    return {
        "trace": name,
        "cold_share": cold_share,
        "idle_s_at_cold_share": {curve.policy: curve.idle_at(cold_share) for curve in curves},
        "curves": [
            {
                "policy": curve.policy,
                "points": [
                    {"setting": point.setting} | _fields(point.outcome) for point in curve.points
                ],
            }
            for curve in curves
        ],
    }


def _fields(outcome: Outcome) -> dict[str, float | None]:
    return {
        name: None if math.isinf(value := getattr(outcome, name)) else value
        for name in outcome.__struct_fields__
    }
