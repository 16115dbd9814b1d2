"""`task`: list a session's tasks, look at and cancel tasks by their id."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any, Literal

import click

from agent_sandbox.cli.options import access_options, json_option, open_client, session_argument
from agent_sandbox.cli.output import (
    ago,
    note,
    page_json,
    print_facts,
    print_json,
    print_table,
    print_text,
)
from agent_sandbox.results import EXIT_SYSTEM, Result, describe
from shared.errors import NotFound
from shared.rest import TaskView
from shared.tti import tti_by_worker
from shared.views import SessionAnswer, ShowAsk, TasksAnswer, TasksAsk

UNKNOWN = (
    "there is no record of it: if it still waits in a lane or is not published yet, name its pool (--pool); "
    "if it is a later task of a session, name that (--session)"
)

session_option = click.option(
    "--session",
    "session_id",
    metavar="SESSION",
    help="Its session, unless it is its session's first task (a one-shot).",
)


@click.group()
def task() -> None:
    """Tasks by their id."""


@task.command("list")
@session_argument
@click.option(
    "--in-state",
    type=click.Choice(["waiting", "running", "ended"]),
    help="Only tasks in this state.",
)
@click.option("--limit", type=click.IntRange(1, 500), default=100, show_default=True)
@click.option("--after", metavar="PLACE", help="Go on there: the next page.")
@access_options
@json_option
def list_tasks(
    session_id: str, state: Path | None, as_json: bool, in_state: Any, **page: Any
) -> None:
    """List a session's tasks: what has ended, what runs, what waits."""

    async def work() -> TasksAnswer:
        asked = TasksAsk(session=session_id, state=in_state, **page)
        async with open_client(state) as client:
            return await client.ask("tasks", asked, TasksAnswer)

    answer = asyncio.run(work())
    if as_json:
        print_json(page_json("tasks", answer.tasks, answer.next))
        return
    now_s = time.time()
    print_table(
        "",
        ("task", "state", "kind", "result", "why", "accepted", "ended"),
        [
            (
                row.task,
                row.state,
                row.kind,
                row.status,
                row.reason,
                ago(row.accepted_ms, now_s),
                ago(row.ended_ms, now_s),
            )
            for row in answer.tasks
        ],
        empty="no such tasks",
        spare=("accepted", "kind", "why"),
    )
    if answer.next:
        note(f"there are more: --after {answer.next}")


@task.command()
@click.argument("task_id", metavar="TASK")
@session_option
@access_options
@json_option
def show(task_id: str, session_id: str | None, state: Path | None, as_json: bool) -> None:
    """Show a task's result, or how far it is."""

    async def work() -> Result | SessionAnswer:
        async with open_client(state) as client:
            result = await client.read_result(task_id, session_id=session_id)
            if result is not None:
                return result
            return await client.ask(
                "session", ShowAsk(session=session_id or task_id), SessionAnswer
            )

    found = asyncio.run(work())
    if isinstance(found, SessionAnswer) and found.record is None:
        raise NotFound(
            f"no result and no session of task {task_id}: unknown, still waiting in its lane, or a later task "
            "of a session (name it: --session)"
        )
    if as_json:
        print_json(_view(task_id, found))
    elif isinstance(found, Result):
        _print_result(found)
    elif found.record is not None:
        doing = "runs now" if found.task == task_id else "has no result yet"
        click.echo(f"task {task_id} {doing}; its session is {found.record.state}")


@task.command()
@click.argument("task_id", metavar="TASK")
@session_option
@click.option("--pool", help="Only needed for a task that is not published yet.")
@access_options
@json_option
def cancel(
    task_id: str, session_id: str | None, pool: str | None, state: Path | None, as_json: bool
) -> None:
    """Cancel a task, at whatever stage it is."""

    async def work() -> int:
        async with open_client(state) as client:
            answer = await client.cancel(task_id, session_id=session_id, pool=pool)
        if as_json:
            print_json(answer)
        else:
            detail = f" ({answer.status})" if answer.status else ""
            click.echo(f"{answer.outcome}{detail}")
            if answer.error is not None:
                note(answer.error.message)
            elif answer.outcome == "unknown" and pool is None:
                note(UNKNOWN)
        return 0 if answer.outcome in ("cancelled", "finished") else EXIT_SYSTEM

    sys.exit(asyncio.run(work()))


def _view(task_id: str, found: Result | SessionAnswer) -> TaskView:
    """Return where a task stands, in the words of HTTP; of its links there are none here."""
    if isinstance(found, Result):
        raw = found.raw
        tti = found.tti or tti_by_worker(raw)
        return TaskView(
            task=raw.task, session=raw.session, state="ended", pool=raw.pool, tti=tti, result=raw
        )
    record = found.record
    assert record is not None
    state: Literal["started", "accepted"] = "started" if found.task == task_id else "accepted"
    return TaskView(task=task_id, session=record.session, state=state, pool=record.pool)


def _print_result(result: Result) -> None:
    raw = result.raw
    print_text(describe(raw))
    ran_ms = raw.timing.finished_ms - raw.timing.started_ms if raw.timing.started_ms else None
    where = f"{raw.worker} on {raw.node} ({raw.isolation})" if raw.worker else ""
    print_facts(
        {
            "session": raw.session if raw.session != raw.task else "",
            "where": where,
            "ran": f"{ran_ms:.0f} ms, attempt {raw.attempt}" if ran_ms is not None else "",
            "lost": "; ".join(f"{one.cause} of {one.worker}" for one in raw.interruptions),
        }
    )
    for name, stream in (("stdout", raw.stdout), ("stderr", raw.stderr)):
        if stream.size:
            cut = f", the last {len(stream.text.encode())} shown" if stream.truncated else ""
            click.echo(f"--- {name}: {stream.size} bytes{cut}")
            click.echo(stream.text, nl=not stream.text.endswith("\n"))
