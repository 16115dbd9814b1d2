"""`logs`: what a task wrote and writes, whoever started it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
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
from shared.errors import NotFound
from shared.views import SessionAnswer, ShowAsk

QUIET_S = 1.0
"""What is stored comes without pauses as long as this."""


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
                if not await _show(task, follow=given["follow"], as_json=as_json):
                    await _say_it_goes_on(client, task)

    asyncio.run(work())


async def _show(task: RunningTask, *, follow: bool, as_json: bool) -> bool:
    """Show what there is; return whether the task has ended."""
    events = task.events()
    try:
        async for event in _following(events, None if follow else QUIET_S):
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


async def _say_it_goes_on(client: Client, task: RunningTask) -> None:
    """Say what is known of a task without a result.

    Raises:
        NotFound: nothing is.
    """
    answer = await client.ask("session", ShowAsk(session=task.session_id), SessionAnswer)
    if answer.record is None:
        raise NotFound(
            f"nothing is known of task {task.task_id}: it may wait in its lane, or be a later task of a session "
            "(name it: --session)"
        )
    note(f"task {task.task_id} has not ended; `logs -f` follows it")
