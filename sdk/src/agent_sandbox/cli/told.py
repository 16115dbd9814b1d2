"""What people are told of sessions and of what befell them, in words."""

from __future__ import annotations

import time
from typing import Any

from agent_sandbox.cli.output import ago
from agent_sandbox.events import Recovered
from shared.messages import WorkspaceLost
from shared.record import Record
from shared.views import SessionAnswer


def describe_loss(loss: WorkspaceLost) -> str:
    """Return what became of a session's files, in one line."""
    back_to = "an empty one"
    if loss.back_to_ms:
        back_to = f"the one saved {ago(loss.back_to_ms, time.time())} ago"
    return f"the session lost its workspace ({loss.cause}) and went on with {back_to}"


def describe_recovery(event: Recovered) -> str:
    """Return that a task goes on after its worker was lost, and what that cost, in one line."""
    interruption, recovery = event.event.interruption, event.event.recovery
    cause = "" if interruption is None else f" ({interruption.cause})"
    line = f"its worker was lost{cause}; another goes on, attempt {event.attempt}"
    if recovery is None or recovery.total_s is None:
        return line
    return f"{line}, after {recovery.total_s:.1f} s; {recovery.work_lost_s:.1f} s of work are rolled back"


def session_facts(answer: SessionAnswer, record: Record) -> dict[str, Any]:
    """Return what one session is, by what its record and its worker say; empty facts are left out when shown."""
    return {
        "session": record.session,
        "state": record.state + (f" ({record.end_reason})" if record.end_reason else ""),
        "pool": f"{record.pool}, class {record.client_lane}",
        "worker": record.owner
        and f"{record.owner} on {record.node}, {answer.worker_state or 'not heard'}",
        "waits": answer.reason and f"{answer.reason}, for {ago(answer.reason_ms, time.time())}",
        "isolation": answer.isolation,
        "task": answer.task,
        "epoch": record.epoch,
        "tasks done": record.tasks_done,
        "age": ago(record.accepted_ms, time.time()),
        "saved": record.boundary
        and f"{ago(record.boundary.at_ms, time.time())} ago, {record.boundary.entries} files",
        "saved since": record.latest
        and f"{ago(record.latest.snapshot.at_ms, time.time())} ago, in the middle of a task",
        "fork of": record.base and f"{record.base.session}, {record.base.snapshot.id[:12]}",
        "not saved": record.checkpoint_stale_ms
        and f"what was done in the last {ago(record.checkpoint_stale_ms, time.time())}",
        "losses": record.losses
        and f"{record.losses}, last: {record.last_loss.cause if record.last_loss else '?'}",
    }
