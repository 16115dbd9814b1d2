"""A task in a terminal: what its clients type goes in while it runs, and a flood of output waits."""

from __future__ import annotations

import asyncio
import time

from shared.record import Record
from shared.task import Command, Task
from shared.terminals import TerminalAnswer
from worker_agent.core.output import StreamName
from worker_agent.core.results import RunEnd
from worker_agent.core.terminal import InputBook, Keys, Pace
from worker_agent.ports import RunOrder, Sandbox, Terminals, Voice


def is_in_terminal(task: Task) -> bool:
    """Return whether a task asks for a terminal."""
    return isinstance(task, Command) and task.tty is not None


async def run_in_terminal(
    sandbox: Sandbox, terminals: Terminals, voice: Voice, record: Record, order: RunOrder
) -> RunEnd:
    """Run the order, whose task has a terminal, and serve the terminal meanwhile; return how it ended."""
    book, pace, show = InputBook(), Pace(time.monotonic()), order.on_output
    task, shown = order.env["AGENT_SANDBOX_TASK"], 0

    def take(keys: Keys) -> TerminalAnswer:
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
        wait_s = pace.wait_s(len(data), time.monotonic())
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        shown += len(data)  # counted at once with the message that shows it: an answer names both
        await show(stream, data)

    order.on_output = show_at_its_pace
    async with terminals.heard(record, task, take):
        return await sandbox.run(order)
