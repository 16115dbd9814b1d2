"""Notes what pool-managers do for a task that is traced. Off, it does nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pool_manager.core.trail import TaskInHand, ended, lost_attempt, names_of
from shared.messages import TaskResult
from shared.record import Death, Record
from shared.times import time_ms_of
from shared.traces import PlainTracer, Sampling, Trace, read_context
from shared.traces.context import Context, trace_of
from shared.traces.span import OURS, Link

SUBJECT = "Nats-Subject"
TIME_STAMP = "Nats-Time-Stamp"
"""On a repeated message: where it was stored, and when."""


class Notes:
    """Spans of a pool-manager's acts."""

    def __init__(self, tracer: PlainTracer | None = None, sampling: Sampling | None = None) -> None:
        """Note by `tracer`; None: nothing."""
        self._tracer = tracer
        self.sampling = sampling if tracer is not None else None

    @contextmanager
    def recovering(
        self, lost: Record, hit: TaskInHand | None, death: Death, start_ns: int
    ) -> Iterator[Context | None]:
        """While inside, a session whose owner was given up goes to the next one. Tells of the lost attempt first.

        Yields the context of that, for what others do for it; None: there is none to tell of.

        Args:
            lost: the record as the lost owner had it.
            hit: the task that it had in hand; None: none.
            death: what was seen.
            start_ns: when it began to be given up, nanoseconds since 1970.
        """
        if self._tracer is None or self.sampling is None or hit is None:
            yield None
            return
        trace, had_worker = hit.trace_in(lost, self.sampling), lost.state == "running"
        if trace.sampled and had_worker:
            self._tracer.tell((lost_attempt(lost, hit, trace, death, time.time_ns()),))
        with self._tracer.acting("recover session", trace.span_parent, start_ns=start_ns) as span:
            if span is not None:
                span.attributes |= names_of(lost, hit.task)
                span.attributes[f"{OURS}recovery.cause"] = death.cause
                span.attributes[f"{OURS}recovery.worker"] = lost.owner or ""
                if death.silent_ms is not None:
                    span.attributes[f"{OURS}recovery.silent_ms"] = death.silent_ms
                if had_worker:  # else a rescue is given up: its attempt was lost before
                    before = trace.attempt(hit.task, lost.epoch)
                    span.links = (Link.to(before, "lost_attempt"),)
            yield None if span is None else span.context

    @contextmanager
    def handing_on(self, record: Record, trace: Context | None) -> Iterator[None]:
        """While inside, a session whose files are rescued goes to the next owner.

        Args:
            record: its record.
            trace: of its recovery; None: there is none to tell of.
        """
        if self._tracer is None or trace is None:
            yield
            return
        with self._tracer.acting("hand session on", trace) as span:
            if span is not None:
                span.attributes |= names_of(record, record.death_task)
            yield

    def ended(self, record: Record, result: TaskResult, begun_ns: int) -> None:
        """Tell of the end of a session's first task that no worker ends.

        Args:
            record: as it was written with the result.
            result: the task's.
            begun_ns: when the write began, nanoseconds since 1970.
        """
        if self._tracer is None or self.sampling is None or result.task != record.session:
            return
        trace = TaskInHand.first(record).trace_in(record, self.sampling)
        if trace.sampled:
            self._tracer.tell(ended(record, result, trace, (begun_ns, time.time_ns())))

    def of_entry(self, fields: Mapping[str, str], tenant: str, session: str) -> Trace | None:
        """Return the trace of an inbox entry.

        Args:
            fields: its headers, with those that its stream adds when it repeats it.
            tenant: whose.
            session: its session.
        """
        if self.sampling is None:
            return None
        task = fields.get(SUBJECT, "").rpartition(".")[2]
        try:
            accepted_ms = time_ms_of(fields[TIME_STAMP])
        except (KeyError, ValueError):
            return None
        return trace_of(read_context(fields), (tenant, session, task), accepted_ms, self.sampling)

    @contextmanager
    def waking(self, record: Record, trace: Trace | None, lane: str) -> Iterator[None]:
        """While inside, a session that sleeps is given something to do."""
        if self._tracer is None or trace is None:
            yield
            return
        with self._tracer.acting("wake session", trace.span_parent) as span:
            if span is not None:
                span.attributes |= names_of(record)
                span.attributes[f"{OURS}class"] = lane
            yield
