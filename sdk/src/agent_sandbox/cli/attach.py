"""`session attach`: an interactive shell in a session, by way of this terminal."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from agent_sandbox.cli import screen
from agent_sandbox.cli.options import access_options, open_client, session_argument
from agent_sandbox.cli.output import note
from agent_sandbox.cli.run import PATIENCE_S, finish
from agent_sandbox.cli.session import existing
from agent_sandbox.events import Missing, Output
from agent_sandbox.results import exit_code_of
from agent_sandbox.session import Session
from agent_sandbox.shell import Shell
from shared import limits
from shared.errors import NotFound
from shared.task import Tty

KEYBOARD, SCREEN = 0, 1
KNOWN_TERM = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._-]{0,63}")
LIFE_S = float(limits.TIMEOUT_S_MAX)
STAY_S = 60.0
LEAVE_KEY = re.compile(r"ctrl-([a-z\[\]\\^_])")


def read_key(_context: Any, _parameter: Any, name: str) -> int | None:
    """Return the byte of a key; None: there is none.

    Raises:
        click.BadParameter: no such key.
    """
    if name == "none":
        return None
    found = LEAVE_KEY.fullmatch(name.lower())
    if found is None:
        raise click.BadParameter(f"ctrl-<letter>, ctrl-] or none expected, got {name!r}")
    return ord(found[1].upper()) & 0x1F


@click.command()
@session_argument
@click.argument("argv", nargs=-1, type=click.UNPROCESSED, metavar="[-- CMD [ARG]...]")
@click.option("--task", "task_id", metavar="TASK", help="Attach to this task's terminal.")
@click.option("--new", is_flag=True, help="Start a shell; it waits until what runs has ended.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0, limits.TIMEOUT_S_MAX, min_open=True),
    default=LIFE_S,
    metavar="S",
    help="Longest life of what is started, seconds; a day if not said.",
)
@click.option(
    "--idle",
    "idle_s",
    type=click.FloatRange(0, limits.TERMINAL_IDLE_S_MAX, min_open=True),
    default=Tty().idle_s,
    metavar="S",
    help="Hang up what is started when it was left alone for so long, seconds; an hour if not said.",
)
@click.option(
    "--detach-key",
    "leave",
    default="ctrl-]",
    show_default=True,
    callback=read_key,
    help="Leaves, and lets the program go on; none: no key does.",
)
@access_options
def attach(session_id: str, argv: tuple[str, ...], state: Path | None, **given: Any) -> None:
    """Sit before a terminal in the session; the exit code is the program's.

    That is the terminal which the session runs already, else a new one with CMD, or with a shell. Everything typed goes
    there, Ctrl-C too; closing the window leaves the program running, like the detach key.
    """
    if not (os.isatty(KEYBOARD) and os.isatty(SCREEN)):
        raise click.UsageError("a terminal is needed on stdin and stdout; else use session exec")
    if given["task_id"] is not None and (argv or given["new"]):
        raise click.UsageError("--task goes with neither --new nor CMD")

    async def work() -> int:
        async with open_client(state) as client:
            opened = await existing(client, session_id)
            shell = await _choose(opened, argv, given)
            return await _sit(opened, shell, given["leave"])

    sys.exit(asyncio.run(work()))


async def _choose(opened: Session, argv: tuple[str, ...], given: dict[str, Any]) -> Shell:
    """Return the terminal that is meant: the one that runs, or a new one."""
    if given["task_id"] is not None:
        return opened.attach(given["task_id"])
    if not argv and not given["new"] and (await opened.show()).task is not None:
        return opened.attach()
    rows, cols = screen.size(KEYBOARD)
    term = os.environ.get("TERM", "")
    return opened.shell(
        list(argv) or None,
        rows=rows,
        cols=cols,
        term=term if KNOWN_TERM.fullmatch(term) else "xterm",
        timeout_s=given["timeout_s"],
        idle_s=given["idle_s"],
    )


async def _sit(opened: Session, shell: Shell, leave: int | None) -> int:
    """Be the terminal until the program ends, or somebody leaves; return the exit code."""
    waiting = asyncio.get_running_loop().call_later(PATIENCE_S, _say_waiting)
    try:
        await shell.__aenter__()
    finally:
        waiting.cancel()
    try:
        with screen.raw(KEYBOARD):
            keys = screen.Keys(KEYBOARD, leave)
            try:
                has_ended = await _serve(shell, keys)
            finally:
                keys.close()
        if not has_ended:
            shell.detach()
            note(f"detached; `agent-sandbox session attach {opened.id}` comes back")
            return 0
        result = await shell.result()
    except BaseException:
        shell.detach()  # whatever went wrong here is no reason to end what runs there
        raise
    finally:
        await shell.__aexit__(None, None, None)
    finish(result, as_json=False, verbose=False)
    return exit_code_of(result.raw)


def _say_waiting() -> None:
    note("accepted; the session has no worker yet, or something else runs in it")


async def _serve(shell: Shell, keys: screen.Keys) -> bool:
    """Carry keys there, output and sizes here; return whether the program has ended."""
    with screen.heard_sizes() as resized:
        showing = asyncio.create_task(_show(shell))
        others = [
            asyncio.create_task(one)
            for one in (_type(shell, keys), _fit(shell, resized), keys.left.wait())
        ]
        try:
            pending: set[asyncio.Task[Any]] = {showing, *others}
            while not (showing.done() or keys.left.is_set()):
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for one in done:
                    one.result()
            return showing.done()
        finally:
            for one in (showing, *others):
                one.cancel()
            await asyncio.wait({showing, *others})


async def _show(shell: Shell) -> None:
    """Write what the terminal shows, as it is."""
    async for event in shell.events():
        if isinstance(event, Output):
            await asyncio.to_thread(_write_all, event.data)
        elif isinstance(event, Missing):
            await asyncio.to_thread(_write_all, b"\r\n[output is missing here]\r\n")


def _write_all(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(SCREEN, view) :]


async def _type(shell: Shell, keys: screen.Keys) -> None:
    with suppress(NotFound):  # it has ended; `_show` comes to it
        while data := await keys.take():
            await shell.write(data)


async def _fit(shell: Shell, resized: asyncio.Event) -> None:
    """Give the terminal there the size of the one here: at first by way of another, so that its program draws itself."""
    with suppress(NotFound):
        rows, cols = screen.size(KEYBOARD)
        if shell.is_old:
            await shell.resize(max(1, rows - 1), cols)
        while True:
            resized.clear()
            await shell.resize(*screen.size(KEYBOARD))
            with suppress(TimeoutError):  # the same size again says that somebody is there
                async with asyncio.timeout(STAY_S):
                    await resized.wait()
