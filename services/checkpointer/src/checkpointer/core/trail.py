"""What a job's span says of it. Pure."""

from __future__ import annotations

from typing import Protocol

from shared.traces.span import OURS, Value
from shared.workspace import CheckpointAsk


class Told(Protocol):
    """How far a job has come."""

    done_bytes: int
    done_entries: int
    torn: tuple[str, ...]


def facts_of(ask: CheckpointAsk, told: Told) -> dict[str, Value]:
    """Return the attributes of a job's span: whose it is, and how much it moved."""
    return {
        f"{OURS}session.id": ask.session,
        f"{OURS}task.id": ask.task,
        f"{OURS}tenant": ask.tenant,
        f"{OURS}pool": ask.pool,
        f"{OURS}attempt": max(ask.attempt, 1),
        f"{OURS}epoch": ask.epoch,
        f"{OURS}snapshot.bytes": told.done_bytes,
        f"{OURS}snapshot.entries": told.done_entries,
        f"{OURS}snapshot.torn": len(told.torn),
    }
