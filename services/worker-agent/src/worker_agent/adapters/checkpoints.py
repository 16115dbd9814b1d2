"""The checkpointer of the worker's node, asked over NATS: a job is asked for under an id, again and again until it ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from shared import logs, messages, subjects
from shared.bus import Bus
from shared.errors import OutcomeUnknown, Unavailable, error_of
from shared.messages import PodSpec
from shared.record import Record
from shared.traces.context import Context
from shared.workspace import (
    AWAY_S,
    MARK,
    CheckpointAnswer,
    CheckpointAsk,
    JobState,
    Mark,
    Op,
    SnapshotRef,
)
from worker_agent.ports import Held

log = logs.get(__name__)

AGAIN_S = 0.2
"""Pause before a checkpointer that nobody hears is asked again."""
SCANNED: frozenset[JobState] = frozenset({"scanned", "gate_open", "done", "failed"})


class NodeCheckpointer:
    """Implements `ports.Workspaces`."""

    def __init__(
        self, bus: Bus, spec: PodSpec, folder: Path, exclude: tuple[str, ...] = ()
    ) -> None:
        """Ask about the pod of `spec`, whose own folder is `folder`; of its files these are not saved."""
        self._exclude = exclude
        self._bus = bus
        self._spec = spec
        self._mark = folder / MARK
        self._jobs = 0
        self.waits = ("", 0)
        """Why what is asked takes its time, and since when, wall clock; empty and 0: it does not."""

    async def save(
        self,
        held: Held,
        task: str,
        *,
        base: SnapshotRef | None,
        on_scanned: Callable[[], Awaitable[None]],
        left_s: float,
    ) -> SnapshotRef | None:
        """Save the workspace; return its snapshot, or None where it is empty and always was."""
        ask = self._ask("save", held.record, task, left_s)
        ask = msgspec.structs.replace(ask, snapshot=base, frozen=True, exclude=self._exclude)
        ask = _traced(ask, held.trace)
        return (await self._end_of(ask, on_scanned)).snapshot

    async def restore(
        self,
        held: Held,
        task: str,
        snapshot: SnapshotRef,
        *,
        left_s: float,
    ) -> None:
        """Fill the workspace with a snapshot."""
        ask = msgspec.structs.replace(
            self._ask("restore", held.record, task, left_s), snapshot=snapshot
        )
        await self._end_of(_traced(ask, held.trace), None)

    async def retain(self, record: Record, task: str, wanted: str, *, left_s: float) -> SnapshotRef:
        """Find a snapshot that the record is to go back to."""
        ask = msgspec.structs.replace(self._ask("retain", record, task, left_s), wanted=wanted)
        found = (await self._end_of(ask, None)).snapshot
        assert found is not None, "else it has failed"
        return found

    def mark(self, record: Record, task: str) -> None:
        """Say on the node's disk what is in the workspace. Not synced: it is for whoever outlives this process."""
        written = self._mark.with_suffix(".new")
        mark = Mark(session=record.session, epoch=record.epoch, task=task, exclude=self._exclude)
        try:
            written.write_bytes(messages.encode(mark))
            written.rename(self._mark)
        except OSError as exc:
            log.warning("workspace.not_marked", session_id=record.session, error=str(exc))
            self.unmark()  # an older one would be wrong

    def unmark(self) -> None:
        """Say that the workspace is of no use any more."""
        self._mark.unlink(missing_ok=True)

    def _wait_for(self, why: str) -> None:
        since_ms = self.waits[1] or int(time.time() * 1000)
        self.waits = (why, since_ms) if why else ("", 0)

    def _ask(self, op: Op, record: Record, task: str, left_s: float) -> CheckpointAsk:
        self._jobs += 1
        return CheckpointAsk(
            job=f"{self._spec.pod}-{record.epoch}-{self._jobs:04d}",
            op=op,
            tenant=record.tenant,
            pool=record.pool,
            session=record.session,
            epoch=record.epoch,
            pod=self._spec.pod,
            task=task,
            attempt=record.attempt,
            left_s=left_s,
        )

    async def _end_of(
        self, ask: CheckpointAsk, on_scanned: Callable[[], Awaitable[None]] | None
    ) -> CheckpointAnswer:
        """Ask until the job has ended well; as long as nobody answers, again under the same id."""
        try:
            return await self._ask_on(ask, on_scanned)
        except asyncio.CancelledError:
            self._wait_for("")
            raise

    async def _ask_on(
        self, ask: CheckpointAsk, on_scanned: Callable[[], Awaitable[None]] | None
    ) -> CheckpointAnswer:
        end_at = time.monotonic() + ask.left_s
        answer: CheckpointAnswer | None = None
        subject = subjects.checkpoint(self._spec.node, self._spec.pod)
        while (left_s := end_at - time.monotonic()) > 0:
            knows = answer.state if answer is not None else None
            asked = msgspec.structs.replace(ask, left_s=left_s, knows=knows)
            try:
                reply = await self._bus.request(
                    subject, messages.encode(asked), timeout_s=min(AWAY_S, left_s)
                )
            except (Unavailable, OutcomeUnknown):
                self._wait_for("the checkpointer of its node does not answer")
                await asyncio.sleep(min(AGAIN_S, left_s))
                continue
            answer = messages.decode(reply.data, CheckpointAnswer)
            self._wait_for(answer.waits)
            if on_scanned is not None and answer.state in SCANNED:
                await on_scanned()
                on_scanned = None
            if answer.state == "done":
                return answer
            if answer.state == "failed":
                assert answer.error is not None, "a job that failed says why"
                raise error_of(answer.error)
        if answer is None:
            raise Unavailable(f"the checkpointer of node {self._spec.node} does not answer")
        raise OutcomeUnknown(f"{ask.op}: still {answer.state} after {ask.left_s:.0f} s")


def _traced(ask: CheckpointAsk, trace: Context | None) -> CheckpointAsk:
    """Let the job belong to a trace, if there is one."""
    if trace is None:
        return ask
    return msgspec.structs.replace(ask, traceparent=trace.traceparent, tracestate=trace.state)
