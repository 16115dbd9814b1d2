"""One task, from its bytes to its committed result."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Literal

import msgspec

from shared import logs
from shared.errors import ErrorInfo, InvalidMessage, ServiceError, StaleEpoch
from shared.files import Transfer
from shared.limits import DEADLINE_S_MAX
from shared.messages import TaskResult, Timing
from shared.pools import OnInterrupt
from shared.task import Close, Hibernate, Rollback, Task, kind_of
from worker_agent.core.interrupt import after_interruption, is_read_only, time_left_s
from worker_agent.core.kept import Beginning, Kept, left_by_the_interrupted, unharmed
from worker_agent.core.output import OutputBook
from worker_agent.core.recovery import interrupted_env
from worker_agent.core.results import (
    Attempt,
    Place,
    RunEnd,
    StopCause,
    Verdict,
    result_of_run,
    result_without_run,
)
from worker_agent.core.work import Work, read_task
from worker_agent.loops.bury import bury
from worker_agent.loops.clocks import Clocks
from worker_agent.loops.finish import Ended, Ports, Then, finish
from worker_agent.loops.note import Note
from worker_agent.loops.run_in_terminal import is_in_terminal, run_in_terminal
from worker_agent.loops.running import Running
from worker_agent.ports import Held, RunOrder

log = logs.get(__name__)

LATE = Verdict(
    "expired",
    "deadline",
    ErrorInfo(code="deadline", message="deadline_s passed before the task was run"),
)
LOSS_GRACE_S = 0.5
"""Wait before a sandbox that ended by itself is blamed for it: what ended it may be about to end this process too."""


class TaskRunner:
    """Runs a session's tasks one after another."""

    def __init__(
        self,
        ports: Ports,
        place: Place,
        *,
        on_interrupt: OnInterrupt,
        on_change: Callable[[], None],
    ) -> None:
        """Run at `place`; `on_change` is called when what the heartbeat should say has changed."""
        self._ports = ports
        self._place = place
        self._on_interrupt = on_interrupt
        self._on_change = on_change
        self._clocks = Clocks(ports.truth)
        self.running: Running | None = None
        self.rests = False
        """The last task has asked for the session to be given back."""
        self._state: Literal["running", "saving", "idle"] = "idle"

    @property
    def state(self) -> Literal["restoring", "running", "saving", "idle"]:
        """What it does."""
        return self._ports.files.doing or self._state

    @property
    def sandbox_lost(self) -> bool:
        """Whether the sandbox is gone."""
        return self._ports.sandbox.lost

    @property
    def must_leave(self) -> bool:
        """Whether nothing more can be run here."""
        return self._ports.sandbox.lost or self._ports.files.useless

    async def wait_sandbox_lost(self) -> None:
        """Return when the sandbox is gone."""
        await self._ports.sandbox.wait_lost()

    async def run(self, held: Held, work: Work) -> None:
        """Run the task unless its end is already decided, then commit its one result.

        Raises:
            StaleEpoch: another owner has the session.
            OutcomeUnknown: the result could not be committed for too long.
        """
        self.running = Running(
            session=held.record.session, task=work.task, committed=asyncio.Event()
        )
        self.rests = False
        self._set("running")
        note = self._ports.notes.begin(held, work)
        taken = work.taken
        timing = Timing(
            accepted_ms=work.accepted_ms,
            path=taken.path,
            delivered_ms=taken.delivered_ms,
            claimed_ms=taken.claimed_ms,
        )
        try:
            ended = await self._result(held, work, timing, note)
            if ended is None:
                return  # it waits for another worker
            self._set("saving")
            note.saving()
            status = self.running.status = await finish(self._ports, held, work, ended, note)
            self.rests = ended.rests and status == "ok"
        finally:
            note.close()
            self.running.committed.set()
            self.running = None
            self._set("idle")

    async def stop(self, cause: StopCause, limit: str = "") -> None:
        """End the user code that runs now, if any."""
        self._ports.files.cancel()
        await self._ports.sandbox.stop(cause, limit)

    def _set(self, state: Literal["running", "saving", "idle"]) -> None:
        self._state = state
        self._on_change()

    async def _result(self, held: Held, work: Work, timing: Timing, note: Note) -> Ended | None:
        """Return the task's result, and whether the session goes on after it; None: it waits for another worker."""
        record = held.record
        first = work.inbox_seq is None
        attempt = Attempt(
            task=work.task, kind="", record=record, timing=timing, replay_of=work.replay_of
        )
        try:
            task = read_task(work)
        except InvalidMessage as exc:
            give_up_s = self._ports.committer.give_up_s
            verdict = await bury(self._ports.truth, record, work, exc, give_up_s=give_up_s)
            result = result_without_run(attempt, self._place, verdict)
            return Ended(result, "close" if first else "keep", kept=Kept(effects="none"))
        then: Then = "close" if isinstance(task, Close) or (first and not task.keep) else "keep"
        attempt = msgspec.structs.replace(attempt, kind=kind_of(task))
        if task.deadline_s < DEADLINE_S_MAX:
            await self._clocks.compare(record)
        rule = "fail" if is_in_terminal(task) else task.on_interrupt or self._on_interrupt
        left_s = time_left_s(work.accepted_ms, task.deadline_s, self._clocks.now_ms())
        if left_s <= 0:
            return Ended(
                result_without_run(attempt, self._place, LATE), then, kept=Kept(effects="none")
            )
        verdict_or_run = after_interruption(record, work.task, rule)
        if isinstance(verdict_or_run, Verdict):
            kept, recovery = left_by_the_interrupted(record, work.task, _now_ms())
            recovery = unharmed(recovery) if self._ports.files.on_volume else recovery
            attempt = msgspec.structs.replace(attempt, recovery=recovery)
            return Ended(result_without_run(attempt, self._place, verdict_or_run), then, kept=kept)
        if isinstance(task, Rollback):
            return await self._roll_back(attempt, held, task, min(left_s, task.timeout_s))
        begun = await self._ports.files.begin(held, work.task, rule, left_s)
        if begun == "given_back":
            return None
        if not isinstance(begun, Beginning):
            verdict = LATE if begun == "late" else Verdict("cancelled", "requested")
            return Ended(
                result_without_run(attempt, self._place, verdict), then, kept=Kept(effects="none")
            )
        attempt = msgspec.structs.replace(
            attempt,
            record=held.record,
            recovery=begun.recovery,
            timing=msgspec.structs.replace(timing, restored_ms=begun.restored_ms),
        )
        async with self._ports.files.checkpoints(held, work.task):
            result = await self._run(attempt, task, work, note)
        rests = isinstance(task, Hibernate) and then == "keep" and result.status == "ok"
        return Ended(result, then, read_only=is_read_only(task), rests=rests)

    async def _roll_back(
        self, attempt: Attempt, held: Held, task: Rollback, left_s: float
    ) -> Ended:
        """Go back to a snapshot: the record will name it, and what is in this workspace is given up.

        It is given up before the record is written: whoever saved it after that would undo this.
        """
        files, nothing = self._ports.files, Kept(effects="none")
        then: Then = "keep" if attempt.record.first_done or task.keep else "close"
        try:
            snapshot = await files.find(held, attempt.task, task.snapshot, left_s)
        except StaleEpoch:
            raise
        except ServiceError as exc:
            verdict = Verdict("failed", "no_snapshot", exc.info())
            return Ended(result_without_run(attempt, self._place, verdict), then, kept=nothing)
        files.spoil()
        done = result_without_run(attempt, self._place, Verdict("ok"))
        return Ended(done, then, kept=Kept(effects="saved", snapshot=snapshot))

    async def _run(self, attempt: Attempt, task: Task, work: Work, note: Note) -> TaskResult:
        record, started = attempt.record, [0.0]
        # A terminal is watched for as long as it lives: its flood is slowed down, never cut.
        book = OutputBook(publish_bytes_max=sys.maxsize) if is_in_terminal(task) else OutputBook()
        voice = self._ports.voice
        await self._tell_recovery(attempt)

        async def on_started(at_ms: float) -> None:
            started[0] = at_ms
            timing = msgspec.structs.replace(
                attempt.timing,
                restored_ms=order.restored_ms or attempt.timing.restored_ms,
                started_ms=at_ms,
            )
            await voice.event(
                record, work.task, "started", at_ms=at_ms, pool=record.pool, timing=timing
            )
            await note.started(timing)

        async def on_output(stream: Literal["stdout", "stderr"], data: bytes) -> None:
            piece, capped = book.add(stream, data)
            if piece is not None:
                await voice.output(record, work.task, piece)
            if capped:
                await voice.event(record, work.task, "truncated", detail=f"offset {book.offset}")

        async def on_progress(transfer: Transfer) -> None:
            await voice.event(record, work.task, "progress", transfer=transfer)

        order = RunOrder(
            task=task,
            env={
                **task.env,
                "AGENT_SANDBOX_SESSION": record.session,
                "AGENT_SANDBOX_TASK": work.task,
                # The same for every attempt: what the task does outside may be done once by this key.
                "AGENT_SANDBOX_IDEMPOTENCY_KEY": f"{record.session}/{work.task}",
                "AGENT_SANDBOX_ATTEMPT": str(max(record.attempt, 1)),
                **interrupted_env(record, attempt.recovery),
            },
            timeout_s=task.timeout_s,
            deadline_left_s=time_left_s(work.accepted_ms, task.deadline_s, self._clocks.now_ms()),
            on_started=on_started,
            on_output=on_output,
            objects=self._ports.objects(record.tenant),
            on_progress=on_progress,
        )
        sandbox = self._ports.sandbox
        end: RunEnd = (
            await run_in_terminal(sandbox, self._ports.terminals, voice, record, order)
            if is_in_terminal(task)
            else await sandbox.run(order)
        )
        if end.lost and end.stopped is None and not end.oom:
            # A dying node takes the sandbox and the sidecar with it, in any order (measured: the sandbox first in one
            # of six). A result written in between would say `failed` of a task that another worker is to run again.
            await asyncio.sleep(LOSS_GRACE_S)
        timing = msgspec.structs.replace(
            attempt.timing,
            restored_ms=order.restored_ms or attempt.timing.restored_ms,
            started_ms=started[0],
            finished_ms=time.time() * 1000,
        )
        return result_of_run(
            msgspec.structs.replace(attempt, timing=timing), self._place, end, book
        )

    async def _tell_recovery(self, attempt: Attempt) -> None:
        """Tell the client that the session goes on after a loss, and what was lost."""
        voice, record, task, lost = (
            self._ports.voice,
            attempt.record,
            attempt.task,
            attempt.record.lost,
        )
        if record.interruptions:
            last = msgspec.structs.replace(record.interruptions[-1], recovered_ms=_now_ms())
            await voice.event(
                record,
                task,
                "recovered",
                interruption=last,
                recovery=attempt.recovery,
                workspace_lost=lost,
            )
        elif lost is not None:
            await voice.event(record, task, "workspace_lost", workspace_lost=lost)


def _now_ms() -> int:
    return int(time.time() * 1000)
