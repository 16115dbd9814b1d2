"""`run`, and how any task is shown while it runs: output as it comes, Ctrl-C cancels it."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from agent_sandbox.cli.options import (
    access_options,
    json_option,
    open_client,
    pool_options,
    read_code,
    read_task_options,
    task_options,
    verbose_option,
)
from agent_sandbox.cli.output import note, print_json
from agent_sandbox.cli.shapes import Accepted
from agent_sandbox.cli.told import describe_loss, describe_recovery
from agent_sandbox.events import Event, Missing, Output, Recovered
from agent_sandbox.results import EXIT_CANCELLED, Result, describe, describe_tti, exit_code_of
from agent_sandbox.running import RunningTask
from shared.errors import OutcomeUnknown

CANCELLED_RESULT_S = 10.0
PATIENCE_S = 3.0
"""After so long without a worker a person should know that it is not his program that is slow."""


@click.command(context_settings={"ignore_unknown_options": False})
@click.argument("argv", nargs=-1, type=click.UNPROCESSED, metavar="-- CMD [ARG]...")
@click.option(
    "--python", "python_file", metavar="FILE", help="Run this Python file instead; - is stdin."
)
@click.option("--shell", metavar="LINE", help="Run this line with /bin/sh instead.")
@click.option("--cwd", metavar="DIR", help="Directory in the workspace to run in.")
@click.option(
    "--detach", is_flag=True, help="Print the task's id as soon as it is accepted, and leave."
)
@pool_options
@task_options
@access_options
@verbose_option
@json_option
def run(
    argv: tuple[str, ...], state: Path | None, as_json: bool, verbose: bool, **given: Any
) -> None:
    """Run a program in a fresh sandbox; the exit code is the program's.

    Output is streamed. Ctrl-C cancels the task. Files go along with --file; what the program writes goes with the
    sandbox: use a session to keep it.
    """
    options = read_task_options(given)
    if bool(argv) + (given["python_file"] is not None) + ("shell" in options) != 1:
        raise click.UsageError("exactly one of -- CMD, --shell LINE and --python FILE expected")
    if given["python_file"] is not None:
        options["code"] = read_code(given["python_file"])

    async def work() -> int:
        async with open_client(state) as client:
            task = await client.start(argv or None, **options)
            async with task:
                if given["detach"]:
                    say_accepted(task, as_json=as_json)
                    return 0
                return await attend(task, as_json=as_json, verbose=verbose)

    sys.exit(asyncio.run(work()))


def say_accepted(task: RunningTask, *, as_json: bool) -> None:
    """Print the id of a task that nobody waits for."""
    names = Accepted(task=task.task_id, session=task.session_id)
    print_json(names) if as_json else click.echo(task.task_id)


async def attend(task: RunningTask, *, as_json: bool, verbose: bool) -> int:
    """Show a task until its result is there; return the exit code. Ctrl-C and SIGTERM cancel it."""
    with _interrupts() as interrupted:
        showing = asyncio.create_task(_wait(task) if as_json else _show(task))
        interrupting = asyncio.create_task(interrupted.wait())
        try:
            await asyncio.wait(
                {showing, interrupting}, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED
            )
            if not task.has_started and not (showing.done() or interrupting.done()):
                note(f"task {task.task_id} is accepted and waits for a worker")
            await asyncio.wait({showing, interrupting}, return_when=asyncio.FIRST_COMPLETED)
            if not showing.done():
                return await _cancel(task, as_json=as_json)
            showing.result()
            result = await task.result()
        finally:
            showing.cancel()
            interrupting.cancel()
    finish(result, as_json=as_json, verbose=verbose)
    return exit_code_of(result.raw)


def finish(result: Result, *, as_json: bool, verbose: bool) -> None:
    """Print what is to say after the output."""
    raw = result.raw
    if as_json:
        print_json(result.to_json())
        return
    if raw.workspace_lost:
        note(describe_loss(raw.workspace_lost))
    if raw.unsaved:
        note(f"its files are not saved: {raw.unsaved.message}")
    if not result.ok and raw.reason != "exit_code":
        note(describe(raw))
    if verbose:
        note(timing_line(result))


def timing_line(result: Result) -> str:
    """Return where a task ran and how long it took, in one line."""
    raw = result.raw
    first = ""
    if result.tti is not None:
        first = f"first instruction after {describe_tti(result.tti)}, "
    elif result.tti_s is not None:
        first = f"first instruction after {result.tti_s * 1000:.1f} ms, "
    where = f"{raw.worker} ({raw.isolation})" if raw.worker else "no worker"
    return f"task {raw.task}: {where}; {first}done after {result.total_s * 1000:.0f} ms, attempt {raw.attempt}"


async def _show(task: RunningTask) -> None:
    """Write output as it comes, whole pieces at a time."""
    async for event in task.events():
        show_event(event)


def show_event(event: Event) -> None:
    """Write a piece of output where it belongs; say what else one should know."""
    match event:
        case Output(stream="stdout"):
            sys.stdout.buffer.write(event.data)
            sys.stdout.buffer.flush()
        case Output():
            sys.stderr.buffer.write(event.data)
            sys.stderr.buffer.flush()
        case Recovered() if event.event.interruption:
            note(describe_recovery(event))
        case Missing(size=None):
            note("more output than is kept: the rest is not shown")
        case Missing():
            note(f"{event.size} bytes of {event.stream} are not shown")


async def _wait(task: RunningTask) -> None:
    task.ignore_events()
    await task.result()


async def _cancel(task: RunningTask, *, as_json: bool) -> int:
    """Cancel the task and return the exit code that fits what became of it."""
    note(f"cancelling task {task.task_id}")
    answer = await task.cancel()
    if answer.outcome not in ("cancelled", "finished"):
        raise OutcomeUnknown(f"task {task.task_id} could not be cancelled: {answer.outcome}")
    result = await task.result(wait_s=CANCELLED_RESULT_S)
    finish(result, as_json=as_json, verbose=False)
    return EXIT_CANCELLED if result.status == "cancelled" else exit_code_of(result.raw)


@contextmanager
def _interrupts() -> Iterator[asyncio.Event]:
    """Yield an event that is set by the first Ctrl-C or SIGTERM; the second acts as ever."""
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    numbers = (signal.SIGINT, signal.SIGTERM)

    def once() -> None:
        event.set()
        for number in numbers:
            loop.remove_signal_handler(number)

    for number in numbers:
        loop.add_signal_handler(number, once)
    try:
        yield event
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
