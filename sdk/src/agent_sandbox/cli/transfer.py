"""`session put` and `get`, `upload` and `download`: files of any size and whole directories, with progress."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TypeVar

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from agent_sandbox.cli.options import (
    access_options,
    json_option,
    open_client,
    read_task_options,
    session_argument,
)
from agent_sandbox.cli.output import note, print_json
from agent_sandbox.cli.session import existing
from agent_sandbox.cli.shapes import TreeFetched
from agent_sandbox.session import Session

PLAIN_EVERY_S = 5.0
"""Where no bar can move, at most one line in so many seconds."""
MIB = 1 << 20
T = TypeVar("T")

timeout_option = click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    metavar="S",
    help="Longest time inside the cluster, seconds.",
)


class Bar:
    """Says how far a file is: a bar on a terminal, a line now and then elsewhere."""

    def __init__(self, what: str) -> None:
        """Say nothing yet."""
        self._what = what
        console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            DownloadColumn(binary_units=True),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._moves = console.is_terminal
        self._task = self._bar.add_task(what, total=None)
        self._next = time.monotonic() + PLAIN_EVERY_S

    def __enter__(self) -> Self:
        """Show it."""
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take it away."""
        self._bar.stop()

    def move(self, done_bytes: int, total_bytes: int | None) -> None:
        """Show how far it is."""
        self._bar.update(self._task, completed=done_bytes, total=total_bytes)
        if not self._moves and time.monotonic() > self._next:
            self._next = time.monotonic() + PLAIN_EVERY_S
            of = "" if total_bytes is None else f" of {total_bytes / MIB:.0f}"
            click.echo(f"{self._what}: {done_bytes / MIB:.0f}{of} MiB", err=True)


def _transfer(work: Callable[[Session, Bar], Awaitable[T]], given: dict[str, Any], what: str) -> T:
    async def connected() -> T:
        async with open_client(given["state"]) as client:
            opened = await existing(client, given["session_id"])
            with Bar(what) as bar:
                return await work(opened, bar)

    return asyncio.run(connected())


@click.command()
@session_argument
@click.argument("local", metavar="LOCAL", type=click.Path(allow_dash=True))
@click.argument("path", required=False)
@timeout_option
@access_options
@json_option
def put(local: str, path: str | None, **given: Any) -> None:
    """Copy a file of any size into the session.

    LOCAL is a file of this machine, - is stdin. PATH in the workspace is LOCAL's name where it is left out.
    """
    if path is None and local == "-":
        raise click.UsageError("PATH expected: stdin has no name")
    target = path or Path(local).name
    source = sys.stdin.buffer if local == "-" else Path(local)
    result = _transfer(
        lambda opened, bar: opened.upload(
            source, target, on_progress=bar.move, **read_task_options(given)
        ),
        given,
        target,
    )
    print_json(result.to_json()) if given["as_json"] else click.echo(target)


@click.command()
@session_argument
@click.argument("path")
@click.argument("local", metavar="[LOCAL]", type=click.Path(allow_dash=True), required=False)
@timeout_option
@access_options
@json_option
def get(path: str, local: str | None, **given: Any) -> None:
    """Copy a file of any size out of the session.

    LOCAL is a file of this machine, - is stdout. It is PATH's name where it is left out.
    """
    if local == "-" and given["as_json"]:
        raise click.UsageError("--json and - both want stdout")
    target = sys.stdout.buffer if local == "-" else Path(local or Path(path).name)
    result = _transfer(
        lambda opened, bar: opened.download(
            path, target, on_progress=bar.move, **read_task_options(given)
        ),
        given,
        path,
    )
    if given["as_json"]:
        print_json(result.to_json())
    elif isinstance(target, Path):
        click.echo(target)
    else:
        with suppress(BrokenPipeError):
            target.flush()


@click.command()
@session_argument
@click.argument("local", metavar="LOCAL", type=click.Path(allow_dash=True, path_type=Path))
@click.argument("path", default=".")
@timeout_option
@access_options
@json_option
def upload(local: Path, path: str, **given: Any) -> None:
    """Copy a folder's content into the session.

    LOCAL is a folder of this machine, - a tar archive on stdin. PATH is the directory that its content goes into, the
    workspace itself where it is left out. What has the same names is replaced, the rest stays.
    """
    if local.is_file():
        raise click.UsageError(f"{local} is a file: `session put` copies files")
    source = sys.stdin.buffer if str(local) == "-" else local
    result = _transfer(
        lambda opened, bar: opened.upload_tree(
            source, path, on_progress=bar.move, **read_task_options(given)
        ),
        given,
        path,
    )
    print_json(result.to_json()) if given["as_json"] else click.echo(path)


@click.command()
@session_argument
@click.argument("path")
@click.argument(
    "local", metavar="[LOCAL]", type=click.Path(allow_dash=True, path_type=Path), required=False
)
@click.option("--snapshot", metavar="NAME", help="As it was then: a snapshot's name or id.")
@timeout_option
@access_options
@json_option
def download(path: str, local: Path | None, snapshot: str | None, **given: Any) -> None:
    """Copy a directory of the session into a new folder.

    PATH is a directory or a file, . the whole workspace. LOCAL is a folder that is not there yet or is empty, - a tar
    archive on stdout. It is PATH's name where it is left out.
    """
    to_stdout = str(local) == "-"
    if to_stdout and given["as_json"]:
        raise click.UsageError("--json and - both want stdout")
    folder = local or Path(Path(path).name or given["session_id"])
    done = _transfer(
        lambda opened, bar: opened.download_tree(
            path,
            sys.stdout.buffer if to_stdout else folder,
            snapshot=snapshot,
            on_progress=bar.move,
            **read_task_options(given),
        ),
        given,
        path,
    )
    if done is None:
        with suppress(BrokenPipeError):
            sys.stdout.buffer.flush()
        return
    if done.left_out:
        note(f"left out, since they lead out of the folder: {', '.join(done.left_out)}")
    if given["as_json"]:
        print_json(
            TreeFetched(
                folder=str(folder),
                entries=done.entries,
                size_bytes=done.size_bytes,
                left_out=done.left_out,
            )
        )
    else:
        click.echo(folder)
