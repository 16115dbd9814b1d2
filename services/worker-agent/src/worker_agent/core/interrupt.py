"""What becomes of a task whose worker died in the middle."""

from __future__ import annotations

from typing import Literal

from shared.errors import ErrorInfo
from shared.heads import OUT_OF_MEMORY, is_interrupted
from shared.pools import OnInterrupt
from shared.record import Record
from shared.task import Archive, ListFiles, Open, ReadFile, Resume, Task
from worker_agent.core.results import TOO_MUCH_MEMORY, Verdict

CLOCKS_AGREE_MS = 2000
"""Clocks that differ by no more are taken for the same."""


def after_interruption(record: Record, task: str, rule: OnInterrupt) -> Verdict | Literal["run"]:
    """Return `run`, or the verdict that ends the task, by its own rule or its pool's.

    Only the task that was in hand when the worker died was interrupted; one that never began is run. With which files it
    goes on says `shared.heads.head_for`. One that took its pod's memory ends as it does where only its sandbox ends by that.
    """
    if not is_interrupted(record, task):
        return "run"
    last = record.interruptions[-1]
    if last.cause == OUT_OF_MEMORY:  # again it would take as much
        return TOO_MUCH_MEMORY
    if rule != "fail":
        return "run"
    return Verdict(
        "interrupted",
        "worker_lost",
        ErrorInfo(
            code="interrupted",
            message=f"worker {last.worker} was lost ({last.cause}); the task may have happened in part",
            definite=False,
        ),
    )


def is_read_only(task: Task) -> bool:
    """Return whether a task can have changed no file by itself."""
    return isinstance(task, ReadFile | ListFiles | Archive | Open | Resume) and not task.files


def time_left_s(accepted_ms: int, deadline_s: float, now_ms: int) -> float:
    """Return the seconds until a task's deadline, counted from its acceptance by the servers' clock.

    Args:
        accepted_ms: the stream's clock, milliseconds since 1970.
        deadline_s: the task's.
        now_ms: now, by the servers' clock as well.
    """
    return deadline_s - (now_ms - accepted_ms) / 1000


def server_ahead_ms(written: Record, stored_ms: int, *, owner: str | None) -> int:
    """Return by how much the servers' clock is ahead of an owner's: its own write has a time of each.

    What a slow write may account for is taken for none.

    Args:
        written: the record as its owner wrote it last.
        stored_ms: the stream's clock of that write.
        owner: who asks.
    """
    if written.owner != owner:
        return 0
    ahead_ms = stored_ms - max(written.claimed_ms, written.last_done_ms)
    return ahead_ms if abs(ahead_ms) > CLOCKS_AGREE_MS else 0
