"""`session`: create, use, look at and close sessions that stay open."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, get_args

import click

from agent_sandbox.cli.options import (
    access_options,
    json_option,
    next_task_options,
    open_client,
    pool_options,
    read_code,
    read_task_options,
    session_argument,
    split_file,
    task_options,
    verbose_option,
)
from agent_sandbox.cli.output import ago, note, page_json, print_facts, print_json, print_table
from agent_sandbox.cli.run import attend
from agent_sandbox.cli.shapes import Directory, FileContent
from agent_sandbox.cli.told import session_facts
from agent_sandbox.client import Client
from agent_sandbox.session import Session
from shared.errors import InvalidMessage, NotFound, ServiceError
from shared.record import State
from shared.views import ListAsk, SessionAnswer, SessionsAnswer


@click.group()
def session() -> None:
    """Sessions that stay open: files and interpreter are kept from task to task."""


@session.command()
@pool_options
@task_options
@access_options
@json_option
def create(state: Path | None, as_json: bool, **given: Any) -> None:
    """Create a session and print its id."""

    async def work() -> None:
        async with open_client(state) as client:
            made = await client.create_session(**read_task_options(given))
            assert made.opened is not None
            print_json(made.opened.to_json()) if as_json else click.echo(made.id)

    asyncio.run(work())


@session.command("exec")
@session_argument
@click.argument("argv", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD [ARG]...")
@click.option("--cwd", metavar="DIR", help="Directory in the workspace to run in.")
@next_task_options
@access_options
@verbose_option
@json_option
def execute(
    session_id: str, argv: tuple[str, ...], state: Path | None, as_json: bool, **given: Any
) -> None:
    """Run a program in the session; the exit code is the program's."""

    async def work() -> int:
        async with open_client(state) as client:
            opened = await existing(client, session_id)
            task = await opened.start(argv, **read_task_options(given))
            async with task:
                return await attend(task, as_json=as_json, verbose=given["verbose"])

    sys.exit(asyncio.run(work()))


@session.command()
@session_argument
@click.argument("file", required=False)
@click.option("-c", "code", metavar="CODE", help="Code instead of a file.")
@next_task_options
@access_options
@verbose_option
@json_option
def python(session_id: str, state: Path | None, as_json: bool, **given: Any) -> None:
    """Run Python in the session's interpreter.

    Its variables live on from task to task. FILE is a Python file; - is stdin.
    """
    if (given["file"] is None) == (given["code"] is None):
        raise click.UsageError("exactly one of FILE and -c CODE expected")
    code = read_code(given["file"]) if given["code"] is None else given["code"]

    async def work() -> int:
        async with open_client(state) as client:
            opened = await existing(client, session_id)
            task = await opened.start_python(code, **read_task_options(given))
            async with task:
                return await attend(task, as_json=as_json, verbose=given["verbose"])

    sys.exit(asyncio.run(work()))


@session.command("list")
@click.option(
    "--in-state",
    type=click.Choice(get_args(State)),
    metavar="STATE",
    help="Only sessions in this state (running, idle, closed, …).",
)
@click.option("--limit", type=click.IntRange(1, 500), default=100, show_default=True)
@click.option("--after", metavar="SESSION", help="Go on after this one: the next page.")
@access_options
@json_option
def list_sessions(state: Path | None, as_json: bool, in_state: str | None, **page: Any) -> None:
    """List sessions."""

    async def work() -> SessionsAnswer:
        async with open_client(state) as client:
            return await client.ask("sessions", ListAsk(state=in_state, **page), SessionsAnswer)

    answer = asyncio.run(work())
    if as_json:
        print_json(page_json("sessions", answer.sessions, answer.next))
        return
    print_table(
        "",
        ("session", "pool", "state", "tasks", "lost", "age", "worker"),
        [
            (
                row.session,
                row.pool,
                row.state,
                row.tasks_done,
                row.losses or None,
                ago(row.accepted_ms, time.time()),
                row.worker,
            )
            for row in answer.sessions
        ],
        empty="no sessions",
        spare=("worker", "lost"),
    )
    if answer.next:
        note(f"there are more: --after {answer.next}")


@session.command()
@session_argument
@access_options
@json_option
def show(session_id: str, state: Path | None, as_json: bool) -> None:
    """Show a session: its record, and what its worker says."""

    async def work() -> SessionAnswer:
        async with open_client(state) as client:
            return await client.session(session_id).show()

    answer = asyncio.run(work())
    if as_json:
        print_json(answer)
        return
    record = answer.record
    if record is None:
        raise _unknown(session_id)
    print_facts(session_facts(answer, record))


async def existing(client: Client, session_id: str) -> Session:
    """Return a session that there is: the inbox of any other takes a task as well, which then waits for its deadline.

    Raises:
        NotFound: a pool-manager knows that there is none. Where none answers, the task itself will tell.
    """
    named = client.session(session_id)
    try:
        answer = await named.show()
    except ServiceError:
        return named
    if answer.record is None:
        raise _unknown(session_id)
    return named


def _unknown(session_id: str) -> NotFound:
    return NotFound(f"no session {session_id} (its first task may still be waiting)")


def _file_command(
    work: Callable[[Session], Awaitable[Any]], session_id: str, state: Path | None
) -> Any:
    async def connected() -> Any:
        async with open_client(state) as client:
            return await work(await existing(client, session_id))

    return asyncio.run(connected())


@session.command()
@session_argument
@access_options
@json_option
def close(session_id: str, state: Path | None, as_json: bool) -> None:
    """End a session; its files go."""
    result = _file_command(lambda opened: opened.close(), session_id, state)
    if as_json:
        print_json(result.to_json())
    if not result.ok and result.reason != "session_ended":
        result.check()
    if not as_json:
        click.echo("closed" if result.ok else "had ended before")


@session.command()
@session_argument
@click.argument("file", metavar="LOCAL[:PATH]")
@access_options
@json_option
def write(session_id: str, file: str, state: Path | None, as_json: bool) -> None:
    """Copy a file of this machine into the session."""
    path, content = split_file(file)
    result = _file_command(lambda opened: opened.write(path, content), session_id, state)
    print_json(result.to_json()) if as_json else click.echo(path)


@session.command()
@session_argument
@click.argument("path")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write; else stdout.",
)
@access_options
@json_option
def read(
    session_id: str, path: str, state: Path | None, as_json: bool, output: Path | None
) -> None:
    """Copy a file out of the session."""
    data: bytes = _file_command(lambda opened: opened.read(path), session_id, state)
    if output is not None:
        try:
            output.write_bytes(data)
        except OSError as exc:
            raise InvalidMessage(f"file {output}: {exc.strerror or exc}") from exc
    if as_json:
        print_json(FileContent(path=path, size=len(data), data=None if output else data))
    elif output is None:
        sys.stdout.buffer.write(data)


@session.command("ls")
@session_argument
@click.argument("path", default=".")
@access_options
@json_option
def list_files(session_id: str, path: str, state: Path | None, as_json: bool) -> None:
    """List a directory of the session."""
    entries = _file_command(lambda opened: opened.list(path), session_id, state)
    if as_json:
        print_json(Directory(path=path, entries=tuple(entries)))
        return
    for entry in entries:
        click.echo(f"{entry.mode:04o} {entry.type:<5} {entry.size:>12} {entry.name}")


@session.command("rm")
@session_argument
@click.argument("path")
@click.option("-r", "--recursive", is_flag=True, help="A directory with what is in it.")
@access_options
@json_option
def remove(session_id: str, path: str, state: Path | None, **given: bool) -> None:
    """Remove a file of the session."""
    result = _file_command(
        lambda opened: opened.remove(path, recursive=given["recursive"]), session_id, state
    )
    if given["as_json"]:
        print_json(result.to_json())
