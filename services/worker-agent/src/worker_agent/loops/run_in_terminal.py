"""A task in a terminal: what its clients type goes in while it runs, and a flood of output waits."""

from __future__ import annotations

import asyncio
import time

from shared import logs
from shared.record import Record
from shared.task import Command, Task
from shared.terminals import TerminalAnswer
from worker_agent.core.output import StreamName
from worker_agent.core.results import RunEnd
from worker_agent.core.terminal import InputBook, Keys, Pace, Quiet
from worker_agent.ports import RunOrder, Sandbox, Terminals, Voice

log = logs.get(__name__)

AGAIN_S = 60.0


def is_in_terminal(task: Task) -> bool:
    """Return whether a task asks for a terminal."""
    return isinstance(task, Command) and task.tty is not None


async def run_in_terminal(
    sandbox: Sandbox, terminals: Terminals, voice: Voice, record: Record, order: RunOrder
) -> RunEnd:
    """Run the order, whose task has a terminal, and serve the terminal meanwhile; return how it ended."""
    assert isinstance(order.task, Command)
    assert order.task.tty is not None
    book, pace, show = InputBook(), Pace(time.monotonic()), order.on_output
    quiet = Quiet(order.task.tty.idle_s, time.monotonic())
    task, shown = order.env["AGENT_SANDBOX_TASK"], 0

    def take(keys: Keys) -> TerminalAnswer:
        quiet.broken(time.monotonic())
        typed = book.take(keys, sandbox.room_bytes)
        sandbox.type(typed.take)
        if keys.size is not None:
            sandbox.resize(*keys.size)
        if keys.hang_up:
            sandbox.hang_up()
        return TerminalAnswer(
            next=typed.next,
            room=sandbox.room_bytes,
            epoch=record.epoch,
            attempt=record.attempt,
            said=voice.said(record, task),
            shown=shown,
            forgotten=typed.forgotten,
        )

    async def show_at_its_pace(stream: StreamName, data: bytes) -> None:
        nonlocal shown
        quiet.broken(time.monotonic())
        wait_s = pace.wait_s(len(data), time.monotonic())
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        shown += len(data)  # counted at once with the message that shows it: an answer names both
        await show(stream, data)

    order.on_output = show_at_its_pace
    async with terminals.heard(record, task, take):
        watching = asyncio.create_task(_hang_up_when_quiet(sandbox, quiet), name="quiet")
        try:
            return await sandbox.run(order)
        finally:
            watching.cancel()
            await asyncio.wait({watching})


async def _hang_up_when_quiet(sandbox: Sandbox, quiet: Quiet) -> None:
    """Hang up what was left alone for long, again and again: a frozen program does not hear it."""
    while True:
        left_s = quiet.left_s(time.monotonic())
        if left_s <= 0:
            log.info("terminal.left_alone")
            sandbox.hang_up()
            left_s = AGAIN_S
        await asyncio.sleep(left_s)
