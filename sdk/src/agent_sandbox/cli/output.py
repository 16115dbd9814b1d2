"""What commands print: progress and remarks on stderr, results on stdout."""

from __future__ import annotations

import os
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

PIPE_WIDTH = 10_000
"""Characters of a line where no terminal ends it: a row is one line there, for `grep` and `awk`."""

WHOLE = ("session", "task")
"""Columns whose cells stay on one line while others can give way: ids, to be copied."""


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


def page_json(name: str, rows: Sequence[Any], following: Any) -> dict[str, Any]:
    """Return a page of a listing for `print_json`: its rows are there even if there are none."""
    return {name: rows, "next": following} if following else {name: rows}


def note(text: str) -> None:
    """Say something beside the result."""
    click.echo(f"agent-sandbox: {text}", err=True)


def print_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, empty: str = ""
) -> None:
    """Print a table: columns in which nothing stands are left out; on a terminal long cells wrap, but not ids.

    Where there are no rows, `empty` is said instead, if given.
    """
    cells = [["" if value is None else str(value) for value in row] for row in rows]
    if empty and not cells:
        note(empty)
        return
    used = [index for index in range(len(columns)) if any(row[index] for row in cells)] or [0]
    table = Table(box=None, pad_edge=False)
    for index in used:
        table.add_column(columns[index], overflow="fold", no_wrap=columns[index] in WHOLE)
    for row in cells:
        table.add_row(*(Text(row[index]) for index in used))  # as text: [words] are no markup
    bounded = sys.stdout.isatty() or "COLUMNS" in os.environ
    console = Console(highlight=False, width=None if bounded else PIPE_WIDTH)
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
