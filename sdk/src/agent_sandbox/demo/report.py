"""What the demo prints, and what it holds the product to."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from agent_sandbox.results import Result, describe

FAILURES_SHOWN = 3


class Report:
    """Prints sections and remembers every promise that was not kept."""

    def __init__(self) -> None:
        """Start with nothing broken."""
        self.broken: list[str] = []
        self._number = 0

    def section(self, title: str) -> None:
        """Begin a part."""
        self._number += 1
        self._write(f"\n{self._number}  {title}")

    def line(self, text: str) -> None:
        """Print a line of the part."""
        self._write(f"   {text}")

    def block(self, text: str) -> None:
        """Print what a task wrote."""
        for line in text.splitlines():
            self._write(f"   | {line}")

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Print a table; columns are as wide as what is in them, numbers to the right."""
        cells = [list(columns), *(list(row) for row in rows)]
        widths = [max(len(row[index]) for row in cells) for index in range(len(columns))]
        for row in cells:
            self.line(
                "  ".join(
                    cell.rjust(width) if _is_number(cell) else cell.ljust(width)
                    for cell, width in zip(row, widths, strict=True)
                ).rstrip()
            )

    def promise(self, kept: bool, text: str) -> None:
        """Print a promise, and whether it was kept."""
        self.line(f"{'ok ' if kept else 'NOT'} {text}")
        if not kept:
            self.broken.append(text)

    def ended_well(self, results: Sequence[Result], text: str) -> None:
        """Print the promise that these tasks ended well, and how those did that did not."""
        failed = [result for result in results if not result.ok]
        self.promise(not failed, text)
        for result in failed[:FAILURES_SHOWN]:
            self.line(
                f"    {describe(result.raw)}, attempt {result.raw.attempt} on {result.raw.worker}"
            )

    def _write(self, text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def _is_number(text: str) -> bool:
    return text[:1].isdigit()


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which `share` (0 to 1) of the values lie, the nearest one that occurred."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
