"""Answers what is stored of a task's output: for a client that comes back, or has missed a message."""

from __future__ import annotations

from contextlib import suppress

from pool_manager.core.replays import Page, mark_of
from pool_manager.loops.hands import Hands
from pool_manager.ports.outputs import Outputs
from shared import messages
from shared.errors import ServiceError
from shared.ids import parse_task_id
from shared.views import OutputAnswer, OutputAsk, OutputMark


class Replayer:
    """Serves `ask.<tenant>.output`."""

    def __init__(self, outputs: Outputs) -> None:
        """Answer from `outputs`, with hands of its own: long output keeps no other question waiting."""
        self.hands = Hands("replay", count=4, pending_max=512)
        self._outputs = outputs

    async def serve(self, tenant: str, body: bytes) -> OutputAnswer:
        """Answer with as much as one answer holds.

        Raises:
            InvalidMessage: the question cannot be read.
            Unavailable: the stream does not answer.
        """
        ask = messages.decode(body, OutputAsk)
        place = (tenant, parse_task_id(ask.session), parse_task_id(ask.task))
        after = ask.after
        if ask.since is not None and not after:
            after = await self._skip(place, ask.since)
        page = Page(after, ask.limit)
        more = False
        async for stored in self._outputs.scan(*place, after):
            if page.is_full:
                more = True
                break
            page.add(stored)
        if not more:
            # A replica may lag behind; the leader says whether this is all. Without one, this is what there is.
            with suppress(ServiceError):
                found = await self._outputs.following(*place, page.next)
                if found is not None:
                    page.add(found)
                    more = True
        return OutputAnswer(messages=tuple(page.messages), next=page.next, more=more)

    async def _skip(self, place: tuple[str, str, str], since: OutputMark) -> int:
        """Return a sequence that lies before the message `since`, near it where messages lie in their order.

        What a zombie said among them may lead too far; a client that misses something then asks from the start.
        """
        first = await self._outputs.following(*place, 0)
        last = await self._outputs.last(*place)
        if first is None or last is None:
            return 0
        low, high = first.seq - 1, last.seq
        while low < high:
            middle = (low + high + 1) // 2
            found = await self._outputs.following(*place, middle - 1)
            mark = None if found is None else mark_of(found.headers)
            if found is None or mark is None or mark >= since:
                high = middle - 1
            else:
                low = found.seq
        return low
