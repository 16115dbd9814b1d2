"""A node's checkpointer for tests of pool-managers: it speaks the real messages and saves nothing."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from shared import messages, subjects
from shared.bus import Bus, Message
from shared.errors import ErrorInfo
from shared.ids import home
from shared.record import Hold, Record
from shared.testing.look import now_ms
from shared.testing.peers import BEAT_S
from shared.testing.wait import until
from shared.transitions import rescued
from shared.workspace import CheckpointAnswer, CheckpointAsk, CheckpointerBeat, SnapshotRef


def snapshot(number: int = 1) -> SnapshotRef:
    """Return a snapshot that nobody stored."""
    return SnapshotRef(id=f"{number:064x}", pack=f"t/s/pack-{number}", at_ms=now_ms(), bytes=100)


class CheckpointerPeer:
    """Answers requests for rescues as the test says."""

    def __init__(self, node: str, bus: Bus) -> None:
        """Use a connection with the rights of that node's checkpointer."""
        self.node, self.bus = node, bus
        self.asks: list[CheckpointAsk] = []
        """One for each job."""
        self.go_on = asyncio.Event()
        """Until it is set, what it was asked is under way."""
        self.fails: ErrorInfo | None = None
        self.whole: bool | None = False
        """The dead pod's workspace holds nothing in part, as who looks is told; None: nobody is answered."""
        self.looks: list[CheckpointAsk] = []
        self.unavailable = ""
        """Of its store."""
        self.beats = 0
        """Heartbeats that it has published."""
        self._answers: dict[str, CheckpointAnswer] = {}
        self._job: asyncio.Task[None] | None = None
        self._started_ms = now_ms()

    async def start(self) -> None:
        """Listen and beat."""
        await self.bus.subscribe(subjects.rescue(self.node), self._on_ask)
        self._job = asyncio.create_task(self._beat())

    async def stop(self) -> None:
        """Die: nothing is heard of it any more."""
        if self._job is not None:
            self._job.cancel()
            with suppress(asyncio.CancelledError):
                await self._job
        await self.bus.close()

    async def is_heard(self) -> None:
        """Return when what it says now was said, and there was time to hear it."""
        before = self.beats
        await until(lambda: self.beats >= before + 3)

    async def _beat(self) -> None:
        while True:
            beat = CheckpointerBeat(
                node=self.node, started_ms=self._started_ms, unavailable=self.unavailable
            )
            subject = subjects.checkpointer_heartbeat(self.node)
            await self.bus.publish(subject, messages.encode(beat))
            self.beats += 1
            await asyncio.sleep(2 * BEAT_S)

    async def _on_ask(self, message: Message) -> None:
        ask = messages.decode(message.data, CheckpointAsk)
        if ask.op == "look":
            self.looks.append(ask)
            if self.whole is not None:
                await self.bus.publish(message.reply, messages.encode(self._look(ask)))
            return
        if ask.job not in {known.job for known in self.asks}:
            self.asks.append(ask)
        if self.go_on.is_set() and ask.job not in self._answers:
            self._answers[ask.job] = await self._rescue(ask)
        answer = self._answers.get(ask.job) or CheckpointAnswer(job=ask.job, state="running")
        await self.bus.publish(message.reply, messages.encode(answer))
        await asyncio.sleep(BEAT_S)

    def _look(self, ask: CheckpointAsk) -> CheckpointAnswer:
        if self.whole:
            return CheckpointAnswer(job=ask.job, state="done")
        error = ErrorInfo(code="not_found", message="it holds a task in part")
        return CheckpointAnswer(job=ask.job, state="failed", error=error)

    async def _rescue(self, ask: CheckpointAsk) -> CheckpointAnswer:
        if self.fails is not None:
            return CheckpointAnswer(job=ask.job, state="failed", error=self.fails)
        stored = await self.bus.read_last(
            subjects.state_stream(home(ask.session)),
            subjects.any_pool_record(ask.tenant, ask.session),
        )
        assert stored is not None
        record = messages.decode(stored.data, Record)
        saved = snapshot(ask.epoch)
        whole = bool(self.whole) or not record.interruptions
        hold = Hold(record.owner or "", ask.epoch)
        after = rescued(record, hold, snapshot=saved, whole=whole)
        subject = subjects.record(after.pool, after.tenant, after.session)
        await self.bus.compare_and_set(subject, messages.encode(after), expected_seq=stored.seq)
        return CheckpointAnswer(job=ask.job, state="done", snapshot=saved)
