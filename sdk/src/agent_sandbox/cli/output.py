"""What commands print: progress and remarks on stderr, results on stdout."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
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

CELL_MIN = 12
"""Characters to which a cell may be narrowed; below that a table is hard to read."""

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
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    empty: str = "",
    spare: Sequence[str] = (),
) -> None:
    """Print a table: columns in which nothing stands are left out; on a terminal long cells wrap, but not ids.

    Where the terminal is too narrow for that, the `spare` columns go, one after another; if it still is, each row is a
    block of its own with a line for each cell, these too. Where there are no rows, `empty` is said instead, if given.
    """
    cells = [["" if value is None else plain(str(value)) for value in row] for row in rows]
    if empty and not cells:
        note(empty)
        return
    used = [index for index in range(len(columns)) if any(row[index] for row in cells)] or [0]
    console = make_console()
    if title:
        console.print(Text(title, style=_style("bold")))
    shown = _fitting(columns, cells, used, spare, console.width)
    if shown is None:
        for number, row in enumerate(cells):
            if number:
                click.echo()
            print_facts({columns[index]: row[index] for index in used})
        return
    heads = [columns[index] for index in shown]
    chosen = [[row[index] for index in shown] for row in cells]
    table = Table(box=None, pad_edge=False, header_style=_style("bold"))
    for head in heads:
        table.add_column(head, overflow="fold", no_wrap=head in WHOLE)
    for row in chosen:
        table.add_row(*(Text(cell) for cell in row))  # as text: [words] are no markup
    console.print(table)


def _fitting(
    columns: Sequence[str],
    cells: Sequence[Sequence[str]],
    used: Sequence[int],
    spare: Sequence[str],
    width: int,
) -> list[int] | None:
    """Return the columns that fit, the spare ones left out as far as they must be; None: the others do not fit."""
    shown = list(used)
    for name in (None, *spare):
        shown = [index for index in shown if columns[index] != name]
        rows = [[row[index] for index in shown] for row in cells]
        if width_needed([columns[index] for index in shown], rows) <= width:
            return shown
    return None


def width_needed(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """Return the characters below which a table is no longer one: ids whole, words of others hardly cut."""
    widths = []
    for index, head in enumerate(heads):
        longest = max([len(head), *(len(row[index]) for row in rows)])
        widths.append(longest if head in WHOLE else min(longest, max(len(head), CELL_MIN)))
    return sum(widths) + 2 * (len(widths) - 1)


def print_facts(facts: Mapping[str, Any]) -> None:
    """Print what is known of one thing, a line each; what is empty is left out, long values wrap beside their names."""
    told = {name: plain(str(value)) for name, value in facts.items() if value}
    console = make_console()
    beside = max((len(name) for name in told), default=0) + 2
    for name, value in told.items():
        if beside + max(len(word) for word in value.split(" ")) > console.width:
            # Below its name. An id stays whole, so that it can be copied; in a sentence what is too long is cut.
            below = Text(f"{name}\n{value}")
            if " " in value:
                console.print(below, overflow="fold")
            else:
                console.print(below, soft_wrap=True)
            continue
        lines = Text(value).wrap(console, max(1, console.width - beside))
        for number, line in enumerate(lines):
            line.rstrip()
            console.print(Text(f"{'' if number else name:<{beside}}") + line, soft_wrap=True)


def plain(text: str) -> str:
    """Return a text without what moves a terminal's cursor or colours it: strangers' words may be in it."""
    return "".join(
        char if char.isprintable() or char in "\n\t" else char.encode("unicode_escape").decode()
        for char in text
    )


def print_text(text: str) -> None:
    """Print a sentence; on a terminal it wraps between words."""
    make_console().print(Text(text))


def make_console() -> Console:
    """Return where results are printed; in a pipe lines have no end, for `grep` and `awk`."""
    bounded = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(highlight=False, width=None if bounded else PIPE_WIDTH)


def _style(style: str) -> str:
    """Return a style; none where the user wants none."""
    return "" if os.environ.get("NO_COLOR") else style


def ago(then_ms: int, now_s: float) -> str:
    """Return how long ago a time was, in the largest fitting unit; empty for 0."""
    if not then_ms:
        return ""
    seconds = max(0.0, now_s - then_ms / 1000)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
