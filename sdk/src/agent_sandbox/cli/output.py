"""What commands print: progress and remarks on stderr, results on stdout."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Self

import click
import msgspec
from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

PLAIN_EVERY_S = 1.0
"""Where no line can move, at most one line in so many seconds."""


class Progress:
    """Says what is being waited for: one moving line on a terminal, plain lines elsewhere."""

    def __init__(self, *, quiet: bool) -> None:
        """Say nothing if `quiet`."""
        self._quiet = quiet
        self._console = Console(stderr=True)
        self._status: Status | None = None
        self._began = time.monotonic()
        self._next = 0.0

    def __enter__(self) -> Self:
        """Start the moving line."""
        if not self._quiet and self._console.is_terminal:
            self._status = self._console.status("starting", spinner="dots")
            self._status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Clear the line."""
        if self._status:
            self._status.stop()

    def say(self, text: str) -> None:
        """Say what is being waited for now."""
        if self._status:
            self._status.update(text)
        elif not self._quiet and time.monotonic() > self._next:
            self._next = time.monotonic() + PLAIN_EVERY_S
            click.echo(f"{time.monotonic() - self._began:5.1f} s  {text}", err=True)


def print_json(value: Any) -> None:
    """Print one JSON object on a line."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()


def note(text: str) -> None:
    """Say something beside the result."""
    click.echo(f"agent-sandbox: {text}", err=True)


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table that fits the terminal: columns in which nothing stands are left out, long cells wrap."""
    cells = [["" if value is None else str(value) for value in row] for row in rows]
    used = [index for index in range(len(columns)) if any(row[index] for row in cells)] or [0]
    table = Table(box=None, pad_edge=False)
    for index in used:
        table.add_column(columns[index], overflow="fold")
    for row in cells:
        table.add_row(*(Text(row[index]) for index in used))  # as text: [words] are no markup
    console = Console(highlight=False)
    if title:
        console.print(Text(title, style="bold"))
    console.print(table)


def ago(then_ms: int, now_s: float) -> str:
    """Return how long ago a time was, in the largest fitting unit; empty for 0."""
    if not then_ms:
        return ""
    seconds = max(0.0, now_s - then_ms / 1000)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
