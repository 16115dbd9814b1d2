"""What becomes of a task whose worker died in the middle."""

from __future__ import annotations

from typing import Literal

from shared.errors import ErrorInfo
from shared.pools import OnInterrupt
from shared.record import Record
from worker_agent.core.results import Verdict


def after_interruption(record: Record, task: str, rule: OnInterrupt) -> Verdict | Literal["run"]:
    """Return `run`, or the verdict that ends the task, by its own rule or its pool's.

    Only the task that was in hand when the worker died was interrupted; one that never began is run.

    `rerun` starts again from the workspace of the last completed task. `resume` would go on from a newer checkpoint;
    while none exist it is the same, and the task's result lists the interruption either way.
    """
    hit = bool(record.interruptions) and record.death_task in ("", task)
    if not hit or rule != "fail":
        return "run"
    last = record.interruptions[-1]
    return Verdict(
        "interrupted",
        "worker_lost",
        ErrorInfo(
            code="interrupted",
            message=f"worker {last.worker} was lost ({last.cause}); the task may have happened in part",
            definite=False,
        ),
    )


def time_left_s(record_accepted_ms: int, deadline_s: float, now_ms: int) -> float:
    """Return the seconds until a task's deadline, counted from its acceptance by the servers' clock."""
    return deadline_s - (now_ms - record_accepted_ms) / 1000
