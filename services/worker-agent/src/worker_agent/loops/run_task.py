"""One task, from its bytes to its committed result."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable
from typing import Literal

import msgspec

from shared import logs, transitions
from shared.errors import (
    ErrorInfo,
    InvalidMessage,
    LimitExceeded,
    ServiceError,
)
from shared.files import Transfer
from shared.limits import DEADLINE_S_MAX
from shared.messages import TaskResult, Timing
from shared.pools import OnInterrupt
from shared.record import Record
from shared.task import Close, Task, kind_of
from worker_agent.core.interrupt import after_interruption, time_left_s
from worker_agent.core.output import OutputBook
from worker_agent.core.results import (
    Attempt,
    Place,
    RunEnd,
    StopCause,
    Verdict,
    result_of_run,
    result_without_run,
    without_content,
)
from worker_agent.core.work import Work, read_task
from worker_agent.loops.bury import bury
from worker_agent.loops.commit import Committer
from worker_agent.loops.note import Note, Notes
from worker_agent.loops.run_in_terminal import is_in_terminal, run_in_terminal
from worker_agent.loops.running import Running
from worker_agent.ports import Held, Objects, RunOrder, Sandbox, Terminals, Truth, Voice

log = logs.get(__name__)

LOSS_GRACE_S = 0.5
"""Wait before a sandbox that ended by itself is blamed for it: what ended it may be about to end this process too."""


class Ports(msgspec.Struct, frozen=True, kw_only=True):
    """What a task runner works with."""

    truth: Truth
    sandbox: Sandbox
    voice: Voice
    committer: Committer
    terminals: Terminals
    objects: Callable[[str], Objects]
    """Tenant -> its objects."""
    notes: Notes
    """Of spans."""


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
        self._ahead_ms = 0
        """Of the servers' clock before this machine's."""
        self._clocks_known = False
        self.running: Running | None = None
        self.state: Literal["running", "saving", "idle"] = "idle"

    @property
    def sandbox_lost(self) -> bool:
        """Whether the sandbox is gone."""
        return self._ports.sandbox.lost

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
            result, then = await self._result(held, work, timing, note)
            self._set("saving")
            note.saving()
            record = transitions.complete(
                held.record, held.hold, inbox_seq=work.inbox_seq, then=then, now_ms=_now_ms()
            )
            try:
                landed = await self._ports.committer.commit(held, record, result)
            except LimitExceeded as exc:
                # Whatever a task yields, it gets its one result: without what does not fit, and saying so.
                result = without_content(result, exc.info())
                landed = await self._ports.committer.commit(held, record, result)
            if landed:
                self.running.status = result.status
            elif work.inbox_seq is None:
                await self._close_double(held)
            await note.committed(result)
        finally:
            note.close()
            self.running.committed.set()
            self.running = None
            self._set("idle")

    async def _close_double(self, held: Held) -> None:
        """End a session whose first task has a result that is not of this record: its id was published twice.

        One result for one id: it stands. Nothing can follow it here, and without an end the record would stay for ever.
        """
        log.warning("session.double", session_id=held.record.session, pool=held.record.pool)
        closed = transitions.complete(
            held.record, held.hold, inbox_seq=None, then="close", now_ms=_now_ms()
        )
        await self._ports.committer.write(held, closed)

    async def stop(self, cause: StopCause, limit: str = "") -> None:
        """End the user code that runs now, if any."""
        await self._ports.sandbox.stop(cause, limit)

    def _set(self, state: Literal["running", "saving", "idle"]) -> None:
        self.state = state
        self._on_change()

    async def _result(
        self, held: Held, work: Work, timing: Timing, note: Note
    ) -> tuple[TaskResult, Literal["keep", "close"]]:
        """Return the task's result, and whether the session goes on after it."""
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
            return result_without_run(attempt, self._place, verdict), "close" if first else "keep"
        then: Literal["keep", "close"] = (
            "close" if isinstance(task, Close) or (first and not task.keep) else "keep"
        )
        attempt = msgspec.structs.replace(attempt, kind=kind_of(task))
        if task.deadline_s < DEADLINE_S_MAX:
            await self._compare_clocks(record)
        verdict_or_run = self._decided(record, work, task)
        if isinstance(verdict_or_run, Verdict):
            return result_without_run(attempt, self._place, verdict_or_run), then
        return await self._run(attempt, task, work, note), then

    async def _compare_clocks(self, record: Record) -> None:
        """Learn how far this machine's clock is off, once, where a deadline of the task's own depends on it."""
        if self._clocks_known:
            return
        with contextlib.suppress(ServiceError):  # no answer: by its own clock then
            self._ahead_ms = await self._ports.truth.server_ahead_ms(record)
            self._clocks_known = True
            if self._ahead_ms:
                log.warning("clock.differs", server_ahead_s=round(self._ahead_ms / 1000, 1))

    def _decided(self, record: Record, work: Work, task: Task) -> Verdict | Literal["run"]:
        if time_left_s(work.accepted_ms, task.deadline_s, _now_ms() + self._ahead_ms) <= 0:
            return Verdict(
                "expired",
                "deadline",
                ErrorInfo(code="deadline", message="deadline_s passed before the task was run"),
            )
        rule = "fail" if is_in_terminal(task) else task.on_interrupt or self._on_interrupt
        return after_interruption(record, work.task, rule)

    async def _run(self, attempt: Attempt, task: Task, work: Work, note: Note) -> TaskResult:
        record, started = attempt.record, [0.0]
        # A terminal is watched for as long as it lives: its flood is slowed down, never cut.
        book = OutputBook(publish_bytes_max=sys.maxsize) if is_in_terminal(task) else OutputBook()
        voice = self._ports.voice
        await self._tell_recovery(record, work.task)

        async def on_started(at_ms: float) -> None:
            started[0] = at_ms
            timing = msgspec.structs.replace(
                attempt.timing, restored_ms=order.restored_ms, started_ms=at_ms
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
            },
            timeout_s=task.timeout_s,
            deadline_left_s=time_left_s(
                work.accepted_ms, task.deadline_s, _now_ms() + self._ahead_ms
            ),
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
            restored_ms=order.restored_ms,
            started_ms=started[0],
            finished_ms=time.time() * 1000,
        )
        return result_of_run(
            msgspec.structs.replace(attempt, timing=timing), self._place, end, book
        )

    async def _tell_recovery(self, record: Record, task: str) -> None:
        """Tell the client that the session goes on after a loss, and what was lost."""
        voice, lost = self._ports.voice, record.lost
        if record.interruptions:
            last = msgspec.structs.replace(record.interruptions[-1], recovered_ms=_now_ms())
            await voice.event(record, task, "recovered", interruption=last, workspace_lost=lost)
        elif lost is not None:
            await voice.event(record, task, "workspace_lost", workspace_lost=lost)


def _now_ms() -> int:
    return int(time.time() * 1000)
