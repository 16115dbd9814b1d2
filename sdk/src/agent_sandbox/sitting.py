"""Sitting down before a terminal: a new one, or one in which a program runs already."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import msgspec

from agent_sandbox.keys import Words
from agent_sandbox.leaving import bounded
from agent_sandbox.orders import (
    ShellOptions,
    TerminalOptions,
    check_options,
    make_task_id,
    program_task,
)
from agent_sandbox.positions import Position
from agent_sandbox.shell import Seat, Shell
from shared.errors import NotFound, OutcomeUnknown, Unavailable
from shared.task import Command, Tty
from shared.terminals import TerminalAnswer
from shared.views import SessionAnswer, ShowAsk

if TYPE_CHECKING:
    from agent_sandbox.client import Client

LOGIN = "command -v bash >/dev/null && exec bash -i; exec sh -i"
"""The best shell that the sandbox has."""
TRIES = 5
AGAIN_S = 0.1


async def sit_at_new(
    client: Client, session_id: str, argv: Sequence[str] | str | None, options: Mapping[str, Any]
) -> Seat:
    """Publish a program in a terminal; None: a shell.

    Raises:
        InvalidMessage: the task breaks a limit (named), or there is no such option; it was not published.
        OutcomeUnknown: no answer; it may have been accepted, and was cancelled for that case.
    """
    check_options(options, ShellOptions)
    sizes = TerminalOptions.__annotations__.keys()
    tty = Tty(**{name: options[name] for name in sizes if name in options})
    others = {name: value for name, value in options.items() if name not in sizes}
    async with client.objects.carried(others) as carried:
        task = program_task(LOGIN if argv is None else argv, carried)
        assert isinstance(task, Command)
        task = msgspec.structs.replace(task, tty=tty)
        task_id = carried["task_id"] = carried.get("task_id") or make_task_id()
        try:
            return Seat(await client.publish_next(session_id, task, carried))
        except (asyncio.CancelledError, OutcomeUnknown):
            # It may have been accepted: with nobody before it, it would hold its session up for as long as it may run.
            await bounded(client.cancel(task_id, session_id=session_id))
            raise


async def sit_at(client: Client, session_id: str, task_id: str | None, *, replay: bool) -> Seat:
    """Sit down before a terminal in which a program runs.

    Args:
        client: ours.
        session_id: its session.
        task_id: its task; None: the one that the session runs now.
        replay: begin with what is stored of its output, not with what comes next.

    Raises:
        NotFound: the session runs no such task, or none that has a terminal.
        Unavailable: nobody can be asked now.
    """
    seen = await client.ask("session", ShowAsk(session=session_id), SessionAnswer)
    worker = seen.record.owner if seen.record is not None else None
    if task_id is None:
        task_id = seen.task
    if task_id is None or worker is None or seen.task != task_id:
        raise NotFound(
            f"session {session_id} runs {'no task' if task_id is None else 'another task'}"
        )
    answer = await _ask_place(client, Words(session=session_id, task=task_id, worker=worker))
    here = Position(answer.epoch, answer.attempt, answer.said, answer.shown, 0)
    after = None if replay else here.text(task_id)
    running = await client.attach(task_id, session_id=session_id, after=after)
    return Seat(running, worker)


async def _ask_place(client: Client, words: Words) -> TerminalAnswer:
    for _ in range(TRIES):
        try:
            return await client.transport.tell_terminal(words)
        except (Unavailable, OutcomeUnknown):
            await asyncio.sleep(AGAIN_S)
    raise NotFound(f"task {words.task} has no terminal, or has ended")


class TerminalSession:
    """What a session offers of terminals."""

    _client: Client
    id: str

    def shell(
        self, argv: Sequence[str] | str | None = None, **options: Unpack[ShellOptions]
    ) -> Shell:
        """Run a program in a terminal (`async with session.shell() as shell`): a shell where none is named.

        The session's other tasks wait until it has ended. It ends as `interrupted` when its worker is lost.

        Args:
            argv: the program and its arguments, or a shell line.
            options: see `ShellOptions`.
        """
        return Shell(
            self._client.transport, lambda: sit_at_new(self._client, self.id, argv, options)
        )

    def attach(self, task_id: str | None = None, *, replay: bool = False) -> Shell:
        """Come back to a terminal in which a program runs; several may sit before one.

        Args:
            task_id: its task; None: the one that the session runs now.
            replay: begin with what is stored of its output (a terminal may answer what it is asked in there), not
                with what comes next.
        """
        return Shell(
            self._client.transport,
            lambda: sit_at(self._client, self.id, task_id, replay=replay),
        )
