"""`logs`: what a task wrote and writes, whoever started it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from agent_sandbox.cli.options import access_options, json_option, open_client
from agent_sandbox.cli.output import note, print_json
from agent_sandbox.cli.run import show_event
from agent_sandbox.cli.task import session_option
from agent_sandbox.client import Client
from agent_sandbox.events import Event
from agent_sandbox.results import describe
from agent_sandbox.running import RunningTask
from agent_sandbox.telling import told, told_result
from shared.errors import NotFound, OutcomeUnknown, Unavailable
from shared.views import SessionAnswer, ShowAsk, TasksAnswer, TasksAsk

QUIET_S = 1.0
"""What is stored comes without pauses as long as this."""
LOOK_S = 2.0
"""A task that is followed is looked for after so long."""


@click.command()
@click.argument("task_id", metavar="TASK")
@session_option
@click.option("-f", "--follow", is_flag=True, help="Go on until the task has ended.")
@click.option("--after", metavar="ID", help="Begin behind this event: the `id` of one of `--json`.")
@access_options
@json_option
def logs(task_id: str, state: Path | None, as_json: bool, **given: Any) -> None:
    """Show what a task wrote and what happened to it, also long after it ended. With --json one object for each event.

    Ctrl-C ends the command, not the task.
    """

    async def work() -> None:
        async with open_client(state) as client:
            task = await client.attach(
                task_id, session_id=given["session_id"], after=given["after"]
            )
            async with task:
                if given["follow"]:
                    await _follow(client, task, as_json=as_json)
                elif not await _show(task, QUIET_S, as_json=as_json):
                    await _say_it_goes_on(client, task)

    asyncio.run(work())


async def _follow(client: Client, task: RunningTask, *, as_json: bool) -> None:
    """Show a task to its end.

    Raises:
        NotFound: there is no such task: it is not waited for in silence.
    """
    showing = asyncio.create_task(_show(task, None, as_json=as_json))
    looking = asyncio.create_task(_until_known(client, task))
    try:
        done, _ = await asyncio.wait({showing, looking}, return_when=asyncio.FIRST_COMPLETED)
        for one in done:
            one.result()
    finally:
        for each in (showing, looking):
            each.cancel()
        await asyncio.wait({showing, looking})


async def _show(task: RunningTask, quiet_s: float | None, *, as_json: bool) -> bool:
    """Show what there is, or what comes within `quiet_s` seconds; return whether the task has ended."""
    events = task.events()
    try:
        async for event in _following(events, quiet_s):
            print_json(told(event, task.task_id)) if as_json else show_event(event)
    finally:
        await events.aclose()
    stored = task.stored
    if stored is None:
        return False
    if as_json:
        print_json(told_result(stored))
    elif stored.status != "ok":
        note(describe(stored))
    return True


async def _following(
    events: AsyncGenerator[Event, None], quiet_s: float | None
) -> AsyncGenerator[Event, None]:
    """Yield events until the last one, or until nothing came for `quiet_s` seconds."""
    while True:
        try:
            async with asyncio.timeout(quiet_s):
                event = await anext(events, None)
        except TimeoutError:
            return
        if event is None:
            return
        yield event


async def _until_known(client: Client, task: RunningTask) -> None:
    """Look, a moment later, whether there is such a task; say it where nobody can tell. Never returns.

    Raises:
        NotFound: there is none.
    """
    await asyncio.sleep(LOOK_S)
    while True:
        with suppress(Unavailable, OutcomeUnknown):  # nobody can be asked now
            if not await _is_known(client, task):
                note(f"{_nothing_known(task)}; waiting for it")
            break
        await asyncio.sleep(LOOK_S)
    await asyncio.Event().wait()


async def _is_known(client: Client, task: RunningTask) -> bool:
    """Return whether a task is known; False: it may be one that waits for its session's first worker.

    Raises:
        NotFound: its session is known, and has no such task.
    """
    shown = await client.ask("session", ShowAsk(session=task.session_id), SessionAnswer)
    if shown.record is None:
        return task.stored is not None
    if task.task_id in (task.session_id, shown.task):
        return True
    after: str | None = None
    while True:
        page = await client.ask(
            "tasks", TasksAsk(session=task.session_id, after=after), TasksAnswer
        )
        if any(row.task == task.task_id for row in page.tasks):
            return True
        if (after := page.next) is None:
            raise NotFound(f"session {task.session_id} has no task {task.task_id}")


def _nothing_known(task: RunningTask) -> str:
    return (
        f"nothing is known of task {task.task_id}: it may wait in its lane, be a later task of a session "
        "(name it: --session), or not be there"
    )


async def _say_it_goes_on(client: Client, task: RunningTask) -> None:
    """Say what is known of a task without a result.

    Raises:
        NotFound: nothing is.
    """
    if not await _is_known(client, task):
        raise NotFound(_nothing_known(task))
    note(f"task {task.task_id} has not ended; `logs -f` follows it")
