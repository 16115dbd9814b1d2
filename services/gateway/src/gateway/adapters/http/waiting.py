"""Waiting for the result of a task that somebody published: heard when it is stored, read once a second in between."""

from __future__ import annotations

from agent_sandbox import Client
from agent_sandbox.results import NoResultYet
from shared.messages import TaskResult

READ_S = 2.0


async def wait_result(client: Client, session: str, task: str, wait_s: float) -> TaskResult | None:
    """Return a task's result, or None where there is none within `wait_s` seconds.

    Raises:
        Unavailable: not connected now.
        OutcomeUnknown: no answer; nothing was changed.
    """
    stored = await client.transport.read_result(session, task, timeout_s=READ_S)
    if stored is not None or not wait_s:
        return stored
    running = await client.attach(task, session_id=session, wait_s=wait_s)
    running.ignore_events()
    try:
        return (await running.result()).raw
    except NoResultYet:
        return None
