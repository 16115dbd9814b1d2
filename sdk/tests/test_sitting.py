"""Sitting down before a new terminal, and going away before it is there."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from agent_sandbox.client import Client
from agent_sandbox.sitting import sit_at_new
from shared.errors import OutcomeUnknown
from shared.messages import CancelAnswer
from shared.task import Task

SESSION = "session-1"


class DeafClient(Client):
    """Its publishes are taken, but their answers are lost."""

    def __init__(self, error: Exception | None) -> None:
        """Raise that in place of an answer; None: wait for ever."""
        super().__init__()
        there: Any = object()
        self._transport = there
        self._error = error
        self.published = asyncio.Event()
        self.ids: list[Any] = []
        self.cancelled: list[Any] = []

    async def publish_next(self, session_id: str, task: Task, options: Mapping[str, Any]) -> Any:
        """Take it, and say nothing."""
        self.ids.append((options["task_id"], session_id))
        self.published.set()
        if self._error is not None:
            raise self._error
        await asyncio.Event().wait()

    async def cancel(
        self, task_id: str, *, session_id: str | None = None, pool: str | None = None
    ) -> CancelAnswer:
        """Note it."""
        self.cancelled.append((task_id, session_id))
        return CancelAnswer(outcome="cancelled")


@pytest.mark.parametrize("error", [None, OutcomeUnknown("no answer")])
@pytest.mark.parametrize("options", [{}, {"task_id": "task-0001"}])
async def test_a_terminal_that_nobody_will_sit_at_is_cancelled(
    error: Exception | None, options: dict[str, Any]
) -> None:
    """It may have been accepted, and would hold its session up; its id is the caller's where he named one."""
    client = DeafClient(error)
    sitting = asyncio.ensure_future(sit_at_new(client, SESSION, None, options))
    await client.published.wait()
    if error is None:
        sitting.cancel()
    await asyncio.wait({sitting})

    assert sitting.cancelled() if error is None else sitting.exception() is error
    assert client.cancelled == client.ids
    assert client.ids[0][0] == options.get("task_id", client.ids[0][0])
