"""Peers for tests of one service: a node and its workers that speak the real messages, without sandboxes."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from shared import messages, subjects
from shared.bus import Bus, BusOptions, Message, Write
from shared.errors import ErrorInfo
from shared.messages import (
    Answer,
    CancelAnswer,
    CancelOrder,
    DeletePod,
    NodeBeat,
    PodGone,
    PodSpec,
    Status,
    TaskResult,
    WorkerBeat,
)
from shared.record import Hold, Origin, Record
from shared.testing.look import Look, now_ms, until
from shared.transitions import claim, complete, create, release

BEAT_S = 0.1


class WorkerPeer:
    """A worker without a sandbox: real credential, real heartbeats, real records."""

    def __init__(self, node: NodePeer, spec: PodSpec) -> None:
        """Connect and beat at once, as a warm worker."""
        self.node, self.spec = node, spec
        self.record: Record | None = None
        """The session that it believes to own."""
        self.task: str | None = None
        """The task that it believes to run."""
        self.silent = False
        """It lives, and is not heard."""
        self.orders: list[CancelOrder] = []
        self.connected: Bus | None = None
        self.beats = 0
        """Heartbeats that it has published."""
        self._seq = 0
        self._job = asyncio.create_task(self._run())

    @property
    def bus(self) -> Bus:
        """Its connection."""
        assert self.connected is not None
        return self.connected

    @property
    def held(self) -> Record:
        """The record of the session that it owns."""
        assert self.record is not None
        return self.record

    @property
    def hold(self) -> Hold:
        """What it believes."""
        return Hold(self.spec.pod, self.held.epoch)

    async def _run(self) -> None:
        options = BusOptions(
            servers=self.spec.servers, name=self.spec.pod, credential=self.spec.credential
        )
        bus = await Bus.connect(options)
        await bus.subscribe(subjects.control(self.spec.pod), self._on_control)
        self.connected = bus
        while True:
            if not self.silent:
                subject = subjects.heartbeat(self.spec.pool, self.spec.pod)
                await bus.publish(subject, messages.encode(self._beat()))
                self.beats += 1
            await asyncio.sleep(BEAT_S)

    async def is_heard(self) -> None:
        """Return when what it says now was said, and there was time to hear it."""
        before = self.beats
        await until(lambda: self.beats >= before + 3)

    def _beat(self) -> WorkerBeat:
        record = self.record
        return WorkerBeat(
            worker=self.spec.pod,
            pool=self.spec.pool,
            node=self.spec.node,
            state="running" if record else "warm",
            session=record.session if record else None,
            tenant=record.tenant if record else None,
            epoch=record.epoch if record else 0,
            task=self.task,
            isolation=self.spec.isolation,
        )

    async def create(self, session: str, *, tell: bool = True, payload: bytes = b"{}") -> None:
        """Create a session and own it; `tell=False`: without knowing it, as after a lost answer."""
        origin = Origin(
            session=session,
            tenant=self.node.tenant,
            pool=self.spec.pool,
            lane="interactive",
            accepted_ms=now_ms(),
        )
        record = create(origin, owner=self.spec.pod, node=self.spec.node, now_ms=now_ms())
        where = (record.pool, record.tenant, session)
        self._seq = await self.bus.batch(
            [
                Write(subjects.payload(*where), payload, expected_seq=0),
                Write(subjects.record(*where), messages.encode(record), expected_seq=0),
            ]
        )
        if tell:
            self.record, self.task = record, session

    async def claim(self, look: Look, session: str, task: str | None = None) -> None:
        """Claim a queued session and run a task of it, by default the first."""
        stored = await look.stored(session)
        assert stored is not None
        self._seq = stored.seq
        record = messages.decode(stored.data, Record)
        await self.write(claim(record, owner=self.spec.pod, node=self.spec.node, now_ms=now_ms()))
        self.task = task or session

    async def write(self, record: Record) -> None:
        """Write the record by compare-and-set."""
        subject = subjects.record(record.pool, record.tenant, record.session)
        self._seq = await self.bus.compare_and_set(
            subject, messages.encode(record), expected_seq=self._seq
        )
        self.record = record

    async def finish(
        self, *, inbox_seq: int | None = None, close: bool = False, status: Status = "ok"
    ) -> None:
        """Commit the result of the task in hand."""
        assert self.task is not None
        done = complete(
            self.held,
            self.hold,
            inbox_seq=inbox_seq,
            then="close" if close else "keep",
            now_ms=now_ms(),
        )
        who = (done.tenant, done.session)
        result = TaskResult(task=self.task, tenant=who[0], session=who[1], status=status)
        record_subject = subjects.record(done.pool, *who)
        self._seq = await self.bus.batch(
            [
                Write(
                    subjects.stored_result(*who, self.task),
                    messages.encode(result),
                    expected_seq=0,
                ),
                Write(record_subject, messages.encode(done), expected_seq=self._seq),
            ]
        )
        self.record, self.task = (None if close else done), None

    async def release(self, position: int = 0) -> None:
        """Give the session up and leave."""
        await self.write(release(self.held, self.hold, position=position, now_ms=now_ms()))
        self.record = None
        await self.leave()

    async def _on_control(self, message: Message) -> None:
        order = messages.decode(message.data, CancelOrder)
        self.orders.append(order)
        if order.task == self.task:
            await self.finish(close=order.task == order.session, status="cancelled")
            answer = CancelAnswer(outcome="cancelled", status="cancelled")
        else:
            answer = CancelAnswer(outcome="unknown")
        await self.bus.publish(message.reply, messages.encode(answer))

    async def leave(
        self, cause: str = "exited", *, tell: bool = True, exit_code: int | None = None
    ) -> None:
        """End the pod; its node says so unless `tell` is false, and names it no more."""
        await self.stop()
        # Named no more only now: as with a real node, no heartbeat without the pod comes before the word of its end.
        self.node.workers.pop(self.spec.pod, None)
        if tell:
            gone = PodGone(pod=self.spec.pod, node=self.spec.node, cause=cause, exit_code=exit_code)
            subject = subjects.gone(self.spec.pool, self.spec.pod)
            await self.node.bus.publish(subject, messages.encode(gone))

    async def stop(self) -> None:
        """End its process; nobody says so."""
        self._job.cancel()
        with suppress(asyncio.CancelledError):
            await self._job
        if self.connected is not None:
            await self.connected.close()


class NodePeer:
    """A node that starts `WorkerPeer`s."""

    def __init__(self, name: str, bus: Bus, tenant: str) -> None:
        """Use a connection with the rights of that node; the workers' sessions belong to `tenant`."""
        self.name, self.bus, self.tenant = name, bus, tenant
        self.workers: dict[str, WorkerPeer] = {}
        self.created: list[str] = []
        """Every pod that was started here, in order."""
        self.refuses = ""
        """Why it starts nothing."""
        self.isolation = {"process": "", "namespace": "", "gvisor": "runsc is not installed"}
        self.capacity = 100
        self.started_ms = now_ms()
        self.job: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen and beat."""
        await self.bus.subscribe(subjects.node_create(self.name), self._on_create)
        await self.bus.subscribe(subjects.node_delete(self.name), self._on_delete)
        self.job = asyncio.create_task(self._beat())

    async def stop(self) -> None:
        """Stop, with all pods; nobody says so."""
        assert self.job is not None
        self.job.cancel()
        for worker in list(self.workers.values()):
            await worker.stop()

    async def _beat(self) -> None:
        while True:
            beat = NodeBeat(
                node=self.name,
                started_ms=self.started_ms,
                pods=tuple(self.workers),
                capacity=self.capacity,
                isolation=self.isolation,
            )
            await self.bus.publish(subjects.node_heartbeat(self.name), messages.encode(beat))
            await asyncio.sleep(2 * BEAT_S)

    async def _on_create(self, message: Message) -> None:
        spec = messages.decode(message.data, PodSpec)
        answer = Answer(ok=True)
        if self.refuses:
            answer = Answer(ok=False, error=ErrorInfo(code="rejected", message=self.refuses))
        elif spec.pod not in self.workers:
            self.created.append(spec.pod)
            self.workers[spec.pod] = WorkerPeer(self, spec)
        await self.bus.publish(message.reply, messages.encode(answer))

    async def _on_delete(self, message: Message) -> None:
        order = messages.decode(message.data, DeletePod)
        if (worker := self.workers.get(order.pod)) is not None:
            await worker.leave("deleted")
        await self.bus.publish(message.reply, messages.encode(Answer(ok=True)))

    async def warm(self, count: int, pool: str = "default") -> list[WorkerPeer]:
        """Wait until so many workers of a pool are connected and own nothing; return them."""

        def ready() -> list[WorkerPeer] | None:
            found = [
                worker
                for worker in self.workers.values()
                if worker.spec.pool == pool and not worker.record and worker.connected
            ]
            return found if len(found) >= count else None

        found: list[WorkerPeer] = await until(ready)
        return found
