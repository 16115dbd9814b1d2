"""Jobs: asked for under an id, begun once, answered as long as somebody asks how far they are."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import Awaitable, Callable

from checkpointer.core.asks import check_asker, check_same
from checkpointer.ports.engine import Progress
from shared import logs
from shared.errors import Draining, ErrorInfo, ServiceError, Unavailable
from shared.limits import CHECKPOINT_JOBS_MAX
from shared.workspace import JOB_ENDS, POLL_S, CheckpointAnswer, CheckpointAsk, SnapshotRef

log = logs.get(__name__)

ENDED_KEPT_S = 120.0
"""How long it is told how a job ended: who asks again under its id after that begins it anew."""
ANSWER_S = POLL_S * 0.8
"""An answer needs some of the time for its way."""
CANCEL_S = 2.0

Work = Callable[[CheckpointAsk, Progress], Awaitable[SnapshotRef | None]]
"""Does a job; returns the snapshot that it made or found. Raises ServiceError."""


@dataclasses.dataclass
class Job:
    """One job, under way or ended a while ago."""

    ask: CheckpointAsk
    progress: Progress
    snapshot: SnapshotRef | None = None
    error: ErrorInfo | None = None
    ended_at: float | None = None

    def answer(self, waits: str) -> CheckpointAnswer:
        """Return how far it is, and why the store keeps it waiting if it does."""
        progress = self.progress
        return CheckpointAnswer(
            job=self.ask.job,
            state=progress.state,
            done_bytes=progress.done_bytes,
            total_bytes=progress.total_bytes,
            done_entries=progress.done_entries,
            total_entries=progress.total_entries,
            snapshot=self.snapshot,
            torn=progress.torn,
            waits="" if progress.state == "done" else waits,
            error=self.error,
        )


class Desk:
    """Takes what is asked. Jobs about one pod follow one another."""

    def __init__(
        self, work: Work, tasks: asyncio.TaskGroup, waits: Callable[[], str] = lambda: ""
    ) -> None:
        """Run jobs as tasks of `tasks`; `waits` returns why they wait for the store now, empty where they don't."""
        self._work = work
        self._waits = waits
        self._tasks = tasks
        self._jobs: dict[str, Job] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._pods: dict[str, asyncio.Lock] = {}
        self._leaving = False

    @property
    def running(self) -> int:
        """Jobs under way."""
        return len(self._running)

    async def answer(self, asker: str, ask: CheckpointAsk) -> CheckpointAnswer:
        """Begin a job, or say how far it is, within `POLL_S` seconds.

        Args:
            asker: last token of the subject on which it was asked.
            ask: what is asked.
        """
        try:
            check_asker(ask, asker)
            job = self._jobs.get(ask.job)
            if job is None:
                job = self._begin(ask)
            else:
                check_same(ask, job.ask)
        except ServiceError as exc:
            log.warning("job.refused", job=ask.job, asker=asker, error=str(exc))
            return CheckpointAnswer(job=ask.job, state="failed", error=exc.info())
        await job.progress.beyond(ask.knows, ANSWER_S)
        return job.answer(self._waits())

    async def drain(self, patience_s: float) -> None:
        """Begin nothing more, let what is under way end for a while, then break it off."""
        self._leaving = True
        if self._running:
            await asyncio.wait(set(self._running), timeout=patience_s)
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(set(self._running), timeout=CANCEL_S)

    def _begin(self, ask: CheckpointAsk) -> Job:
        self._forget(time.monotonic())
        if self._leaving:
            raise Draining("the checkpointer is leaving")
        if len(self._running) >= CHECKPOINT_JOBS_MAX:
            raise Unavailable(f"{CHECKPOINT_JOBS_MAX} jobs are under way, CHECKPOINT_JOBS_MAX")
        job = self._jobs[ask.job] = Job(ask, Progress())
        task = self._tasks.create_task(self._run(job), name=f"{ask.op} {ask.pod}")
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return job

    def _turn_of(self, ask: CheckpointAsk) -> contextlib.AbstractAsyncContextManager[object]:
        """Return the turn of a job among those about its pod; who only looks waits for none."""
        if ask.op == "look":
            return contextlib.nullcontext()
        return self._pods.setdefault(ask.pod, asyncio.Lock())

    async def _run(self, job: Job) -> None:
        ask, began = job.ask, time.monotonic()
        try:
            async with asyncio.timeout(ask.left_s), self._turn_of(ask):
                job.snapshot = await self._work(ask, job.progress)
        except TimeoutError:
            late = Unavailable(f"{ask.op} was not done within {ask.left_s:g} s")
            job.error = late.info()
        except ServiceError as exc:
            job.error = exc.info()
        except asyncio.CancelledError:
            job.error = Draining("the checkpointer is leaving").info()
            raise
        except Exception as exc:
            log.exception("job.broken", job=ask.job, op=ask.op, session_id=ask.session)
            job.error = ErrorInfo(code="bug", message=f"{type(exc).__name__}: {exc}")
        finally:
            job.ended_at = time.monotonic()
            job.progress.reach("failed" if job.error else "done")
            self._tell(job, job.ended_at - began)

    @staticmethod
    def _tell(job: Job, took_s: float) -> None:
        ask, progress = job.ask, job.progress
        say = log.warning if job.error else log.info
        say(
            "job.ended",
            job=ask.job,
            op=ask.op,
            session_id=ask.session,
            pod=ask.pod,
            epoch=ask.epoch,
            took_ms=round(took_s * 1000),
            done_bytes=progress.done_bytes,
            torn=len(progress.torn),
            error=job.error.message if job.error else None,
        )

    def _forget(self, now: float) -> None:
        """Drop jobs that ended long ago, and the locks of pods that nobody works on."""
        for name, job in list(self._jobs.items()):
            if job.ended_at is not None and now - job.ended_at > ENDED_KEPT_S:
                del self._jobs[name]
        busy = {job.ask.pod for job in self._jobs.values() if job.progress.state not in JOB_ENDS}
        for pod in self._pods.keys() - busy:
            del self._pods[pod]
