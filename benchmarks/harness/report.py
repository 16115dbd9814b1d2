"""From figures to what people and programs read: a table, and one line of JSON. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

DIGITS = 4


@dataclass(frozen=True)
class Target:
    """What a figure must reach."""

    figure: str
    reach: float
    at_least: bool = False
    """True: the figure must not be smaller. False: not larger."""

    def is_met(self, value: float) -> bool:
        """Return whether `value` reaches the target."""
        return value >= self.reach if self.at_least else value <= self.reach

    def describe(self) -> str:
        """Return the target in words."""
        return f"{'≥' if self.at_least else '≤'} {self.reach:g}"


@dataclass
class Report:
    """What one run of a benchmark has found."""

    bench: str
    commit: str
    machine: Mapping[str, Any]
    targets: Sequence[Target]
    figures: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    """Sentences for people: what the figures cannot say."""
    sections: list[str] = field(default_factory=list)
    """Tables for people: the profile behind the figures."""

    def add(self, name: str, value: float) -> None:
        """Enter a figure.

        Raises:
            ValueError: it is no finite number, or was entered before.
        """
        if not math.isfinite(value):
            raise ValueError(f"{name}: a finite number expected, got {value}")
        if name in self.figures:
            raise ValueError(f"{name}: entered twice")
        self.figures[name] = round_figure(value)

    def measured(self) -> list[Target]:
        """Return the targets whose figure was measured."""
        return [target for target in self.targets if target.figure in self.figures]

    def missed(self) -> list[Target]:
        """Return the targets that were measured and not reached."""
        return [t for t in self.measured() if not t.is_met(self.figures[t.figure])]

    def unmeasured(self) -> list[Target]:
        """Return the targets whose figure was not measured."""
        return [target for target in self.targets if target.figure not in self.figures]

    def to_json(self) -> dict[str, Any]:
        """Return the object of the last line; a target that was not measured is not in it."""
        return {
            "bench": self.bench,
            "commit": self.commit,
            "machine": dict(self.machine),
            "figures": self.figures,
            "targets": {
                target.figure: {
                    "value": self.figures[target.figure],
                    "reach": target.reach,
                    "at_least": target.at_least,
                    "ok": target.is_met(self.figures[target.figure]),
                }
                for target in self.measured()
            },
            "ok": not self.missed(),
        }

    def line(self) -> str:
        """Return the last line of a benchmark's output."""
        return json.dumps(self.to_json(), separators=(", ", ": "), ensure_ascii=False)


def round_figure(value: float) -> float:
    """Return a figure with the digits that a measurement carries."""
    if value == 0 or float(value).is_integer():
        return float(int(value)) if abs(value) < 1e15 else value
    return round(value, DIGITS - 1 - min(DIGITS - 1, math.floor(math.log10(abs(value)))))


def format_number(value: float) -> str:
    """Return a figure as people read it."""
    return f"{value:,.0f}" if value == int(value) and abs(value) >= 1000 else f"{value:g}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in plain text: the first column to the left, all others to the right."""
    cells = [list(head), *[list(row) for row in rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    lines = []
    for row in cells:
        first = row[0].ljust(widths[0])
        rest = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join([first, *rest]).rstrip())
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def figures_table(report: Report) -> str:
    """Return all figures, those with a target first."""
    targets = {target.figure: target for target in report.measured()}
    rows = []
    for name in [*targets, *(name for name in report.figures if name not in targets)]:
        value, target = report.figures[name], targets.get(name)
        reached = "" if target is None else "reached" if target.is_met(value) else "MISSED"
        rows.append([name, format_number(value), target.describe() if target else "", reached])
    return table(["figure", "value", "target", ""], rows)
