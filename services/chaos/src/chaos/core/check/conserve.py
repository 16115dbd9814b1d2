"""Every accepted task has its end, and every end was somebody's task."""

from __future__ import annotations

from chaos.core.check.book import Book
from chaos.core.history import History


def check_conserve(history: History, book: Book) -> int:
    """Check that nothing that was accepted is without an end; return how many tasks are still under way.

    A task is under way at the end if its client still waited when the run was over. One whose client was told an end that no
    stream stored (that it failed as well), or whose wait was given up although it was accepted, is not conserved.
    """
    stored = {result.task for result in history.results}
    under_way = 0
    for call in history.calls:
        book.look("calls")
        if call.invoke.task in stored:
            continue
        session, task = call.invoke.session, call.invoke.task
        if call.is_ok:
            book.find("lost", session, f"task {task}: acknowledged, and no result is stored")
        elif call.accepted_at is not None and call.end is None:
            under_way += 1
        elif call.accepted_at is not None and call.end is not None:
            book.find(
                "conserve", session, f"task {task}: accepted, without an end: {call.end.error}"
            )
    return under_way
