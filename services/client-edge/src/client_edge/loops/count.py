"""What the relay has counted, put into the metrics."""

from __future__ import annotations

import asyncio

from client_edge.ports import Counts
from shared import metrics
from shared.metrics import Book, declared

EVERY_S = 0.5


class Counter:
    """Carries over what was counted since the last look."""

    def __init__(self, counts: Counts, book: Book) -> None:
        """From `counts` to `book`."""
        self._counts, self._book = counts, book
        self._before: dict[tuple[metrics.Metric, str], int] = {}

    def look(self) -> None:
        """Carry over."""
        counts, book = self._counts, self._book
        book.set(declared.EDGE_OPEN, value=counts.connections)
        book.set(declared.EDGE_HALF_SENT, value=counts.half_sent_bytes)
        self._add(declared.EDGE_ACCEPTED, "", counts.accepted)
        self._add(declared.EDGE_MESSAGES_REFUSED, "", counts.messages_refused)
        for direction, passed in counts.bytes_passed.items():
            self._add(declared.EDGE_BYTES, direction, passed)
        for reason, refused in counts.refused.items():
            self._add(declared.EDGE_REFUSED, reason, refused)

    def _add(self, metric: metrics.Metric, label: str, count: int) -> None:
        before, self._before[metric, label] = self._before.get((metric, label), 0), count
        self._book.add(metric, *([label] if label else []), amount=count - before)


async def count(counts: Counts, book: Book) -> None:
    """Look twice a second, until cancelled."""
    counter = Counter(counts, book)
    while True:
        counter.look()
        await asyncio.sleep(EVERY_S)
