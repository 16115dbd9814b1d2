"""What is counted of jobs, and the alarm when a session's newest snapshot grows too old."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from checkpointer.core.ages import Ages
from checkpointer.core.trail import facts_of
from checkpointer.loops.serve import Work
from checkpointer.ports import Spans
from checkpointer.ports.blobs import PackMissing
from checkpointer.ports.engine import Progress
from shared import logs
from shared.errors import ServiceError
from shared.metrics import Book, declared
from shared.traces import PlainTracer
from shared.traces.context import parse_context
from shared.traces.span import OURS, SPANS_MAX, Span
from shared.workspace import CheckpointAsk, SnapshotRef

log = logs.get(__name__)

EVERY_S = 1.0
SPANS_KEPT = 512
"""Spans that wait for their turn; older ones are dropped."""


class Measured:
    """Work that is counted."""

    def __init__(self, work: Work, book: Book, bound_s: float, spans: Spans) -> None:
        """Do `work`; a snapshot older than `bound_s` seconds that a save should have replaced is told; `spans` go on."""
        self._spans = spans
        self._ended: deque[Span] = deque(maxlen=SPANS_KEPT)
        self._tracer = PlainTracer(self._ended.extend)
        self._work = work
        self._book = book
        self._ages = Ages(bound_s)

    async def __call__(self, ask: CheckpointAsk, progress: Progress) -> SnapshotRef | None:
        """Do one job; see `Work`."""
        with self._traced(ask, progress):
            return await self._counted(ask, progress)

    @contextmanager
    def _traced(self, ask: CheckpointAsk, progress: Progress) -> Iterator[None]:
        """While inside, the job is a span of its task's trace, if that is kept."""
        parent = parse_context(ask.traceparent, ask.tracestate)
        if parent is None:
            yield
            return
        with self._tracer.acting(f"{ask.op} snapshot", parent) as span:
            try:
                yield
            finally:
                if span is not None:
                    span.attributes |= facts_of(ask, progress)

    async def _counted(self, ask: CheckpointAsk, progress: Progress) -> SnapshotRef | None:
        began = time.monotonic()
        saves = ask.op in ("save", "rescue")
        if saves:
            self._ages.asked(ask.session, began)
        outcome = "cancelled"
        try:
            snapshot = await self._work(ask, progress)
            outcome = "done"
        except ServiceError as exc:
            outcome = exc.code
            raise
        finally:
            now = time.monotonic()
            for bad in progress.bad:
                note_bad(self._book, ask.op, is_missing=isinstance(bad, PackMissing))
            self._book.add(declared.CHECKPOINT_JOBS, ask.op, outcome)
            self._book.observe(declared.CHECKPOINT_DURATION, ask.op, seconds=now - began)
            self._book.add(declared.CHECKPOINT_BYTES, ask.op, amount=progress.done_bytes)
        if saves:
            interval_s = self._ages.saved(ask.session, (ask.task, ask.attempt), now)
            if interval_s is not None:
                self._book.observe(declared.CHECKPOINT_INTERVAL, seconds=interval_s)
        return snapshot

    async def watch(self, problem: Callable[[], str]) -> None:
        """Note ages and the store's state every second, until cancelled.

        Args:
            problem: returns why the store can't be used; empty: it can.
        """
        while True:
            now = time.monotonic()
            self._book.set(declared.CHECKPOINT_AGE, value=self._ages.oldest_s(now))
            count, fresh = self._ages.late(now)
            self._book.set(declared.CHECKPOINTS_LATE, value=count)
            self._book.set(declared.CHECKPOINT_STORE_UP, value=0 if problem() else 1)
            for session, age_s in fresh:
                log.error("checkpoint.late", session_id=session, age_s=round(age_s, 1))
            await self._tell()
            await asyncio.sleep(EVERY_S)

    async def _tell(self) -> None:
        """Hand on the spans of jobs that have ended."""
        by_pool: dict[str, list[Span]] = {}
        while self._ended:
            span = self._ended.popleft()
            by_pool.setdefault(str(span.attributes[f"{OURS}pool"]), []).append(span)
        for pool, spans in by_pool.items():
            for at in range(0, len(spans), SPANS_MAX):
                await self._spans.tell(pool, tuple(spans[at : at + SPANS_MAX]))


def note_bad(book: Book, op: str, *, is_missing: bool) -> None:
    """Count a pack that is not what the store had taken.

    Args:
        book: where it is counted.
        op: what found it.
        is_missing: it is gone; else it is damaged.
    """
    book.add(declared.CHECKPOINT_PACKS_BAD, op, "missing" if is_missing else "damaged")
