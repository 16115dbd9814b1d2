"""`deadletter`: tasks that could not be read, or killed their workers."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import click

from agent_sandbox.cli.options import access_options, json_option, open_client, verbose_option
from agent_sandbox.cli.output import (
    ago,
    note,
    page_json,
    plain,
    print_facts,
    print_json,
    print_table,
)
from agent_sandbox.cli.run import attend, say_accepted
from agent_sandbox.cli.shapes import Dropped
from shared.classes import CLIENT_CLASSES
from shared.views import LetterAnswer, LettersAnswer

number_argument = click.argument("number", type=click.IntRange(min=1), metavar="NUMBER")


@click.group()
def deadletter() -> None:
    """Tasks that could not be read, or killed their workers: kept for 30 days, with the reason."""


@deadletter.command("list")
@click.option("--limit", type=click.IntRange(1, 500), default=100, show_default=True)
@click.option("--before", type=click.IntRange(min=1), metavar="NUMBER", help="The next page.")
@access_options
@json_option
def list_letters(state: Path | None, as_json: bool, limit: int, before: int | None) -> None:
    """List dead letters, the newest first."""

    async def work() -> LettersAnswer:
        async with open_client(state) as client:
            return await client.dead_letters.list(limit=limit, before=before)

    answer = asyncio.run(work())
    if as_json:
        print_json(page_json("letters", answer.letters, answer.next))
        return
    now_s = time.time()
    print_table(
        "",
        ("number", "age", "pool", "task", "status", "why"),
        [
            (
                row.number,
                ago(row.buried_ms, now_s),
                row.letter.pool,
                row.letter.task,
                row.letter.status,
                row.letter.error.message,
            )
            for row in answer.letters
        ],
        empty="no dead letters",
        spare=("pool",),
    )
    if answer.next:
        note(f"there are more: --before {answer.next}")


@deadletter.command()
@number_argument
@click.option("--body", "only_body", is_flag=True, help="Nothing but the body, byte by byte.")
@access_options
@json_option
def show(number: int, state: Path | None, as_json: bool, only_body: bool) -> None:
    """Show a dead letter: what is known about it, and its body."""

    async def work() -> LetterAnswer:
        async with open_client(state) as client:
            return await client.dead_letters.show(number)

    answer = asyncio.run(work())
    assert answer.row is not None, "else it is not found"
    if as_json:
        print_json(answer)
        return
    if only_body:
        sys.stdout.buffer.write(answer.body)
        return
    letter = answer.row.letter
    facts: dict[str, Any] = {
        "task": letter.task,
        "session": "" if letter.is_first else letter.session,
        "status": f"{letter.status} ({letter.reason})",
        "why": letter.error.message,
        "pool": f"{letter.pool}, class {letter.klass}" if letter.klass else letter.pool,
        "attempts": letter.attempts,
        "from": letter.origin,
        "its id": letter.message_id,
        "accepted": f"{ago(letter.accepted_ms, time.time())} ago",
        "replay of": letter.replay_of,
    }
    print_facts(facts)
    cut = f", the first {len(answer.body)} kept" if letter.truncated else ""
    click.echo(f"--- body: {letter.size} bytes{cut}")
    click.echo(plain(answer.body.decode("utf-8", "replace")))


@deadletter.command()
@number_argument
@click.option("--new-session", is_flag=True, help="Not in its own session, but in a new one.")
@click.option("--pool", help="Pool of the new session; else the letter's own.")
@click.option("--class", "klass", type=click.Choice(CLIENT_CLASSES), help="Else the letter's own.")
@click.option("--detach", is_flag=True, help="Print the new task's id and do not wait.")
@access_options
@verbose_option
@json_option
def replay(number: int, state: Path | None, as_json: bool, detach: bool, **given: Any) -> None:
    """Publish its task again, under a new id; the result says of what it is a replay. The letter stays."""
    options = {name: given[name] for name in ("pool", "klass", "new_session") if given[name]}

    async def work() -> int:
        async with open_client(state) as client:
            task = await client.dead_letters.replay(number, **options)
            async with task:
                if not detach:
                    return await attend(task, as_json=as_json, verbose=given["verbose"])
                say_accepted(task, as_json=as_json)
                return 0

    sys.exit(asyncio.run(work()))


@deadletter.command()
@number_argument
@access_options
@json_option
def drop(number: int, state: Path | None, as_json: bool) -> None:
    """Remove a dead letter; one that is gone already is no error."""

    async def work() -> bool:
        async with open_client(state) as client:
            return await client.dead_letters.drop(number)

    dropped = asyncio.run(work())
    print_json(Dropped(dropped=dropped)) if as_json else click.echo(
        "dropped" if dropped else "was gone"
    )
