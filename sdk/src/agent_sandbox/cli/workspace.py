"""`session hibernate`, `resume`, `rollback`, `fork`, `snapshots`, `name`, `diff`: a workspace apart from its pod."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from agent_sandbox.cli.options import (
    access_options,
    json_option,
    open_client,
    session_argument,
)
from agent_sandbox.cli.output import ago, note, print_json, print_table
from agent_sandbox.cli.session import existing
from agent_sandbox.cli.shapes import Changes, Forked, Hibernated, Snapshots
from agent_sandbox.session import Session
from shared.snapshots import DiffRow

T = TypeVar("T")
SHORT = 12
"""Characters of a snapshot's id that are shown to people: enough to mean it."""

snapshot_argument = click.argument("snapshot")


def _on(session_id: str, state: Path | None, work: Callable[[Session], Awaitable[T]]) -> T:
    async def connected() -> T:
        async with open_client(state) as client:
            return await work(await existing(client, session_id))

    return asyncio.run(connected())


@click.command()
@session_argument
@access_options
@json_option
def hibernate(session_id: str, state: Path | None, as_json: bool) -> None:
    """Save the files and give the sandbox back.

    The next task wakes the session, elsewhere perhaps. What runs in the background ends, and the interpreter's variables
    are gone.
    """
    result = _on(session_id, state, lambda opened: opened.hibernate())
    if as_json:
        print_json(Hibernated(did=result is not None, task=result.task_id if result else None))
    else:
        click.echo("hibernates" if result is not None else "hibernated before")


@click.command()
@session_argument
@access_options
@json_option
def resume(session_id: str, state: Path | None, as_json: bool) -> None:
    """Wake a session: a worker has it, with its files, when this returns."""
    result = _on(session_id, state, lambda opened: opened.resume())
    print_json(result.to_json()) if as_json else click.echo(f"on {result.raw.worker}")


@click.command()
@session_argument
@snapshot_argument
@access_options
@json_option
def rollback(session_id: str, snapshot: str, state: Path | None, as_json: bool) -> None:
    """Go back to a snapshot.

    SNAPSHOT is a name, an id or the beginning of one. What the session's files are now goes, unless a snapshot has it.
    """
    result = _on(session_id, state, lambda opened: opened.rollback(snapshot))
    print_json(result.to_json()) if as_json else click.echo(f"back at {snapshot}")


@click.command()
@session_argument
@click.argument("snapshot", required=False)
@access_options
@json_option
def fork(session_id: str, snapshot: str | None, state: Path | None, as_json: bool) -> None:
    """Make a session that begins with this one's files, and print its id.

    SNAPSHOT is a name, an id or the beginning of one; without it, what the last completed task left behind.
    """
    made = _on(session_id, state, lambda opened: opened.fork(snapshot))
    print_json(Forked(session=made.id, parent=session_id)) if as_json else click.echo(made.id)


@click.command()
@session_argument
@access_options
@json_option
def snapshots(session_id: str, state: Path | None, as_json: bool) -> None:
    """List the snapshots of a session's files, the newest first."""
    found = _on(session_id, state, lambda opened: opened.snapshots())
    if as_json:
        print_json(Snapshots(session=session_id, snapshots=found))
        return
    print_table(
        "",
        ("snapshot", "age", "size", "entries", "name", "forks", "is", "task"),
        [
            (
                row.id[:SHORT],
                ago(row.at_ms, time.time()),
                size(row.bytes),
                row.entries,
                row.name or None,
                row.forks or None,
                row.head,
                row.task or None,
            )
            for row in found
        ],
        empty="no snapshots yet",
        spare=("task", "entries"),
    )


@click.command()
@session_argument
@snapshot_argument
@click.argument("name", required=False)
@click.option("--remove", is_flag=True, help="Take its name away.")
@access_options
@json_option
def name(session_id: str, snapshot: str, name: str | None, remove: bool, **given: Any) -> None:
    """Keep a snapshot by a name, until the name is taken away."""
    if (name is None) != remove:
        raise click.UsageError("exactly one of NAME and --remove expected")
    row = _on(session_id, given["state"], lambda opened: opened.name_snapshot(snapshot, name or ""))
    print_json(row) if given["as_json"] else click.echo(f"{row.id[:SHORT]} {row.name}".rstrip())


@click.command()
@session_argument
@click.argument("before")
@click.argument("after", required=False)
@click.option("--limit", type=click.IntRange(1), default=1000, show_default=True)
@access_options
@json_option
def diff(session_id: str, before: str, after: str | None, limit: int, **given: Any) -> None:
    """Say how two snapshots of a session differ.

    BEFORE and AFTER are names, ids or beginnings of them; without AFTER, what the last completed task left behind.
    """

    async def work(opened: Session) -> tuple[list[DiffRow], bool]:
        changes: list[DiffRow] = []
        async for change in opened.diff(before, after):
            if len(changes) == limit:
                return changes, True
            changes.append(change)
        return changes, False

    changes, more = _on(session_id, given["state"], work)
    if given["as_json"]:
        print_json(Changes(changes=tuple(changes), more=more))
        return
    print_table(
        "",
        ("change", "before", "after", "path"),
        [
            (
                row.change,
                size(row.size_before) if row.change != "added" and row.type == "file" else None,
                size(row.size_after) if row.change != "removed" and row.type == "file" else None,
                row.path + ("/" if row.type == "directory" else ""),
            )
            for row in changes
        ],
        empty="no difference",
    )
    if more:
        note(f"there are more: --limit {limit * 10}")


def size(count: float) -> str:
    """Return a number of bytes for people."""
    if count < 1024:
        return f"{count:.0f} B"
    for unit in ("KiB", "MiB"):
        count /= 1024
        if count < 1024:
            return f"{count:.1f} {unit}"
    return f"{count / 1024:.1f} GiB"


COMMANDS = (hibernate, resume, rollback, fork, snapshots, name, diff)
