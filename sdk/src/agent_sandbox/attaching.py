"""Listening to a task that was published before: here, by another program, or by one that is gone."""

from __future__ import annotations

import time
from typing import TypedDict

from agent_sandbox.orders import name_order
from agent_sandbox.positions import START, parse_position
from agent_sandbox.running import RESULT_GRACE_S, RunningTask
from agent_sandbox.sequencer import LIVE_BYTES_MAX
from agent_sandbox.starting import listen_until
from agent_sandbox.transport import Transport, View
from shared.limits import DEADLINE_S_MAX

LISTEN_S = 5.0


class AttachOptions(TypedDict, total=False):
    """What `attach` takes beside the task's id."""

    session_id: str | None
    """Its session; absent: it is its session's first task (a one-shot, say)."""
    after: str | None
    """`position` of the last event that was read; absent: from the start."""
    wait_s: float
    """Longest wait for its result, seconds; absent: as long as any task may take."""
    live_bytes_max: int
    """Bytes held for a slow reader; what comes on top is asked for again when he has read so far."""


async def attach_task(
    transport: Transport, tenant: str, task_id: str, options: AttachOptions
) -> RunningTask:
    """Return a task that is heard from now on; what it said before is asked for.

    Raises:
        InvalidMessage: `after` is no position, or none in this task's events.
        NotFound: there is no such task (any more), as far as that can be told.
        Unavailable: no server answered.
    """
    wait_s = options.get("wait_s", DEADLINE_S_MAX + RESULT_GRACE_S)
    order = name_order(tenant, task_id, options.get("session_id"), wait_s=wait_s)
    after = options.get("after")
    view = View(
        after=parse_position(after, order.task) if after else START,
        live_bytes_max=options.get("live_bytes_max", LIVE_BYTES_MAX),
    )
    running = RunningTask(transport, order, view=view)
    await listen_until(running, time.monotonic() + LISTEN_S)
    running.watch.accepted()
    return running
