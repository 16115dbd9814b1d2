"""What commands print: progress on stderr, results on stdout."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import click
import msgspec
from rich.console import Console
from rich.status import Status

state_option = click.option(
    "--state",
    type=click.Path(file_okay=False, path_type=Path),
    help="State folder; else $AGENT_SANDBOX_STATE, else the user's.",
)


class Progress:
    """Says what is being waited for: one moving line on a terminal, plain lines elsewhere."""

    def __init__(self, *, quiet: bool) -> None:
        """Say nothing if `quiet`."""
        self._quiet = quiet
        self._console = Console(stderr=True)
        self._status: Status | None = None
        self._began = time.monotonic()

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
        elif not self._quiet:
            click.echo(f"{time.monotonic() - self._began:5.1f} s  {text}", err=True)


def print_json(value: Any) -> None:
    """Print one JSON object on a line."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()
