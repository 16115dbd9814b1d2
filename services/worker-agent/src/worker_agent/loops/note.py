"""Notes the spans of each attempt: told when user code runs, and with the result. Off, it does nothing.

What was told is safe: a worker that is killed in mid-task has told how the task came to it, and whoever gives it up tells
of the attempt itself.
"""

from __future__ import annotations

import time

import structlog

from shared import logs
from shared.durations import durations_ms
from shared.messages import TaskResult, Timing
from shared.traces.context import Sampling, trace_of
from shared.traces.span import Span
from worker_agent.core import trail as trails
from worker_agent.core.results import Place
from worker_agent.core.trail import Trail
from worker_agent.core.work import Work
from worker_agent.ports import Held, Spans

log = logs.get(__name__)

BOUND = ("trace_id", "span_id")


class Note:
    """What is noted of one attempt."""

    def __init__(self, spans: Spans | None, trail: Trail | None) -> None:
        """Tell `spans` of the attempt `trail`; None: nothing is noted."""
        self._spans = spans
        self._trail = trail
        self._ready: list[Span] = [] if trail is None else list(trails.came(trail))
        self._saving_ns = 0

    async def started(self, timing: Timing) -> None:
        """User code runs; what came before is told."""
        if self._trail is not None:
            self._ready += trails.started(self._trail, timing)
            await self._tell()

    def saving(self) -> None:
        """The result is about to be committed."""
        self._saving_ns = time.time_ns()

    def saved(self) -> None:
        """The task's files were saved before."""
        now_ns = time.time_ns()
        if self._trail is not None:
            self._ready.append(trails.saved(self._trail, (self._saving_ns, now_ns)))
        self._saving_ns = now_ns

    async def committed(self, result: TaskResult) -> None:
        """The result is stored: one line says all of the attempt, and the rest is told."""
        _log_committed(result)
        if self._trail is None:
            return
        if result.timing.started_ms:
            self._ready.append(trails.executed(self._trail, result))
        self._ready += trails.committed(self._trail, result, (self._saving_ns, time.time_ns()))
        await self._tell()

    def close(self) -> None:
        """What is logged from now on belongs to nothing."""
        structlog.contextvars.unbind_contextvars(*BOUND)

    async def _tell(self) -> None:
        ready, self._ready = tuple(self._ready), []
        if self._spans is not None:
            await self._spans.tell(ready)


class Notes:
    """Begins the notes of a worker's attempts."""

    def __init__(self, spans: Spans | None, place: Place, sampling: Sampling | None) -> None:
        """Tell `spans` what happens at `place`; no sampling: traces are off."""
        self._spans = spans
        self._place = place
        self._sampling = sampling

    def begin(self, held: Held, work: Work) -> Note:
        """Begin an attempt; lines that are logged meanwhile name its span."""
        held.trace = None
        if self._sampling is None:
            return Note(None, None)
        record = held.record
        names = (record.tenant, record.session, work.task)
        trace = trace_of(work.trace, names, work.accepted_ms, self._sampling)
        own = trace.attempt(work.task, record.epoch)
        structlog.contextvars.bind_contextvars(trace_id=own.trace_id, span_id=own.span_id)
        if not trace.sampled:
            return Note(None, None)
        held.trace = own
        trail = Trail(
            trace=trace,
            record=record,
            work=work,
            place=self._place,
        )
        return Note(self._spans, trail)


def _log_committed(result: TaskResult) -> None:
    """Say all of an attempt in one line, as whoever looks for the slow ones reads it."""
    took_ms = durations_ms(result.timing, attempt=result.attempt, committed_ms=time.time() * 1000)
    log.info(
        "task.committed",
        session_id=result.session,
        task_id=result.task,
        kind=result.kind,
        status=result.status,
        reason=result.reason,
        epoch=result.epoch,
        attempt=result.attempt,
        path=result.timing.path,
        **{f"{part}_ms": round(took, 1) for part, took in took_ms.items()},
    )
