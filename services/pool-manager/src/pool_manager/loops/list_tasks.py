"""Lists a session's tasks: results, what runs, and what waits in the inbox."""

from __future__ import annotations

from pool_manager.core.task_pages import (
    Place,
    Placed,
    ended_row,
    first_row,
    inbox_row,
    is_in_hand,
    page_of,
    parse_place,
)
from pool_manager.ports import Truth
from pool_manager.ports.results import Results
from shared.errors import NotFound
from shared.ids import parse_task_id
from shared.record import Record
from shared.views import TasksAnswer, TasksAsk

READ_AT_ONCE = 100
"""Inbox entries read for one answer: two requests each."""


class TaskLister:
    """Reads pages of one session's tasks from the leaders."""

    def __init__(self, truth: Truth, results: Results) -> None:
        """Read there."""
        self._truth = truth
        self._results = results

    async def page(self, tenant: str, ask: TasksAsk) -> TasksAnswer:
        """Return the page that is asked for; it may be shorter than asked.

        Raises:
            InvalidMessage: no such session id, or no such place.
            NotFound: nothing is known of the session.
            Unavailable: a stream does not answer.
        """
        session, place = parse_task_id(ask.session), parse_place(ask.after)
        ended: list[Placed] = []
        wants_ended = ask.state in (None, "ended") and place.part == "e"
        if wants_ended:
            ended = await self._ended(tenant, session, place.seq, ask.limit + 1)
        if ask.state == "ended" or len(ended) > ask.limit:
            return page_of(ended, (), ask.limit)
        known = await self._truth.read(tenant, session)
        record = known.record if known else None
        after = place if place.part == "i" else None
        live, cut = await self._live((tenant, session), record, after, ask)
        if wants_ended:  # what ended meanwhile is in neither of the two
            last = ended[-1].place.seq if ended else place.seq
            ended += await self._ended(tenant, session, last, ask.limit + 1)
        if ask.after is None and record is None and not (ended or live):
            raise NotFound(f"no session {session} (its first task may still be waiting)")
        answer = page_of(ended, live, ask.limit)
        if cut is not None and answer.next is None:
            return TasksAnswer(tasks=answer.tasks, next=str(cut))
        return answer

    async def _ended(self, tenant: str, session: str, after: int, limit: int) -> list[Placed]:
        found = await self._results.ended(tenant, session, after, limit)
        return [ended_row(one.result, one.seq, one.stored_ms) for one in found]

    async def _live(
        self,
        who: tuple[str, str],
        record: Record | None,
        place: Place | None,
        ask: TasksAsk,
    ) -> tuple[list[Placed], Place | None]:
        """Return what has no result, and where reading was cut short, if it was."""
        found: list[Placed] = []

        def take(row: Placed) -> None:
            if ask.state in (None, row.row.state):
                found.append(row)

        if place is None and (first := first_row(record)) is not None:
            take(first)
        position = record.position if record is not None else 0
        after = max(position, place.seq if place is not None else 0)
        # Behind an earlier page's row the oldest one, which may run, has been shown.
        may_run = is_in_hand(record) and after == position
        cut: Place | None = None
        for _ in range(READ_AT_ONCE):
            if len(found) > ask.limit or (ask.state == "running" and (found or not may_run)):
                break
            entry = await self._truth.next_entry(*who, after)
            if entry is None:
                break
            after = entry.seq
            if await self._truth.result(*who, entry.task) is not None:
                continue
            take(inbox_row(entry.task, entry.seq, entry.accepted_ms, runs=may_run))
            may_run = False
        else:
            cut = Place("i", after)
        return found, cut
