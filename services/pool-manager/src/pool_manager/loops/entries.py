"""Ends inbox tasks that no worker ends: the result comes first, and what has none stays where it is."""

from __future__ import annotations

from pool_manager.ports import Truth
from shared.errors import Conflict
from shared.ids import home
from shared.messages import TaskResult


async def put_result(truth: Truth, result: TaskResult) -> bool:
    """See to it that a task has a result; return whether it is this one.

    Raises:
        ServiceError: it is not sure that it has one.
    """
    try:
        await truth.put_result(result)
    except Conflict:
        # Lost against a write that was under way, and that may be lost itself: only what can be read is there.
        if await truth.result(result.tenant, result.session, result.task) is None:
            raise
        return False
    return True


async def end_entry(truth: Truth, seq: int, result: TaskResult) -> bool:
    """See to it that the task of an inbox entry has a result, then remove the entry; return whether it is this one.

    Raises:
        ServiceError: the entry may still be there.
    """
    is_ours = await put_result(truth, result)
    await truth.remove_entry(home(result.session), seq)
    return is_ours
