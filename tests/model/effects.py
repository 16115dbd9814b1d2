"""What tasks leave behind in a workspace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

Tasks = tuple[int, ...]
"""Tasks in the order in which their effects came into a workspace; `~task`: in part."""


def in_part(workspace: Tasks, task: int) -> Tasks:
    """Return a workspace in which a task has done something."""
    return workspace if workspace[-1:] == (~task,) else (*workspace, ~task)


def whole(workspace: Tasks, results: Sequence[str | None], *, resumes: bool) -> Tasks:
    """Return a workspace without what may be there in part.

    Args:
        workspace: effects of tasks.
        results: by task.
        resumes: a task that was interrupted may go on from what it did before.
    """
    return tuple(
        task
        for index, task in enumerate(workspace)
        if task >= 0
        or not (
            results[~task] in ("stopped", "interrupted")
            or (resumes and workspace[index + 1 : index + 2] == (~task,))
        )
    )


class Done(NamedTuple):
    """A task that has run."""

    task: int
    workspace: Tasks
    """With its effects as the last ones."""
    found: Tasks
    """What was there before, as its client sees it."""
    result: str
    saves: bool
