"""Test peers that speak the real messages: a node and its workers; and pool-managers in this process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pool_manager import app
from pool_manager.settings import PoolSettings
from shared import messages, subjects
from shared.bus import Bus, BusOptions, Message, Write
from shared.cluster import Cluster
from shared.identity import Credential, roles, write_credential, write_secret
from shared.ids import SHARDS, home
from shared.messages import (
    Answer,
    CancelAnswer,
    CancelOrder,
    DeletePod,
    NodeBeat,
    PodGone,
    PodSpec,
    TaskResult,
    WorkerBeat,
)
from shared.record import Hold, Origin, Record
from shared.service import Stop
from shared.transitions import claim, complete, create, release

TENANT = "acme"
STREAMS = ["POOLS", *(f"{kind}{shard}" for kind in ("", "I", "Q") for shard in range(SHARDS))]


async def until(check: Callable[[], Any | Awaitable[Any]], *, within_s: float = 10.0) -> Any:
    """Return the first true value of `check`, which looks at the outside world; fail when it stays false."""
    end = time.monotonic() + within_s
    while True:
        value = check()
        if asyncio.iscoroutine(value):
            value = await value
        if value:
            return value
        assert time.monotonic() < end, f"not within {within_s} s"
        await asyncio.sleep(0.02)


class FakeWorker:
    """A worker without a sandbox: real credential, real heartbeats, real records."""

    def __init__(self, node: FakeNode, spec: PodSpec) -> None:
        self.node, self.spec = node, spec
        self.record: Record | None = None
        self.seq = 0
        self.task: str | None = None
        self.silent = False
        self.orders: list[CancelOrder] = []
        self.bus: Bus | None = None
        self.job = asyncio.create_task(self._run())

    async def _run(self) -> None:
        options = BusOptions(
            servers=self.spec.servers, name=self.spec.pod, credential=self.spec.credential
        )
        self.bus = await Bus.connect(options)
        await self.bus.subscribe(subjects.control(self.spec.pod), self._on_control)
        while True:
            if not self.silent:
                await self.bus.publish(
                    subjects.heartbeat(self.spec.pool, self.spec.pod), messages.encode(self._beat())
                )
            await asyncio.sleep(0.1)

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

    async def create(self, session: str, *, tell: bool = True) -> Record:
        """Create a session and own it; `tell=False`: without knowing it, as after a lost answer."""
        assert self.bus
        origin = Origin(
            session=session,
            tenant=TENANT,
            pool=self.spec.pool,
            lane="interactive",
            accepted_ms=now_ms(),
        )
        record = create(origin, owner=self.spec.pod, node=self.spec.node, now_ms=now_ms())
        where = (record.pool, TENANT, session)
        self.seq = await self.bus.batch(
            [
                Write(subjects.payload(*where), b"{}", expected_seq=0),
                Write(subjects.record(*where), messages.encode(record), expected_seq=0),
            ]
        )
        if tell:
            self.record, self.task = record, session
        return record

    async def claim(self, session: str, admin: Bus) -> Record:
        """Claim a queued session."""
        record, self.seq = await read_record(admin, session)
        await self.write(claim(record, owner=self.spec.pod, node=self.spec.node, now_ms=now_ms()))
        assert self.record
        return self.record

    async def write(self, record: Record) -> None:
        """Write the record by compare-and-set."""
        assert self.bus
        subject = subjects.record(record.pool, record.tenant, record.session)
        self.seq = await self.bus.compare_and_set(
            subject, messages.encode(record), expected_seq=self.seq
        )
        self.record = record

    async def finish(
        self, *, inbox_seq: int | None = None, close: bool = False, status: Any = "ok"
    ) -> None:
        """Commit the result of the task in hand."""
        assert self.bus
        assert self.record
        assert self.task
        done = complete(
            self.record,
            self.hold,
            inbox_seq=inbox_seq,
            then="close" if close else "keep",
            now_ms=now_ms(),
        )
        result = TaskResult(task=self.task, session=done.session, tenant=done.tenant, status=status)
        self.seq = await self.bus.batch(
            [
                Write(
                    subjects.stored_result(done.tenant, done.session, self.task),
                    messages.encode(result),
                    expected_seq=0,
                ),
                Write(
                    subjects.record(done.pool, done.tenant, done.session),
                    messages.encode(done),
                    expected_seq=self.seq,
                ),
            ]
        )
        self.record, self.task = (None if close else done), None

    async def release(self, position: int = 0) -> None:
        """Give the session up and leave."""
        assert self.record
        await self.write(release(self.record, self.hold, position=position, now_ms=now_ms()))
        await self.leave()

    @property
    def hold(self) -> Hold:
        """What it believes."""
        assert self.record
        return Hold(self.spec.pod, self.record.epoch)

    async def _on_control(self, message: Message) -> None:
        order = messages.decode(message.data, CancelOrder)
        self.orders.append(order)
        assert self.bus
        if order.task == self.task:
            await self.finish(close=order.task == order.session, status="cancelled")
            answer = CancelAnswer(outcome="cancelled", status="cancelled")
        else:
            answer = CancelAnswer(outcome="unknown")
        await self.bus.publish(message.reply, messages.encode(answer))

    async def leave(self, cause: str = "exited", *, tell: bool = True) -> None:
        """End the pod; its node says so unless `tell` is false."""
        self.node.workers.pop(self.spec.pod, None)
        self.job.cancel()
        with suppress(asyncio.CancelledError):
            await self.job
        if self.bus is not None:
            await self.bus.close()
        if tell:
            gone = PodGone(pod=self.spec.pod, node=self.spec.node, cause=cause)
            await self.node.bus.publish(
                subjects.gone(self.spec.pool, self.spec.pod), messages.encode(gone)
            )


class FakeNode:
    """A node that starts `FakeWorker`s."""

    def __init__(self, name: str, bus: Bus) -> None:
        self.name, self.bus = name, bus
        self.workers: dict[str, FakeWorker] = {}
        self.created: list[str] = []
        self.refuses = ""
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
        """Stop, with all pods."""
        assert self.job
        self.job.cancel()
        for worker in list(self.workers.values()):
            await worker.leave(tell=False)

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
            await asyncio.sleep(0.2)

    async def _on_create(self, message: Message) -> None:
        spec = messages.decode(message.data, PodSpec)
        answer = Answer(ok=True)
        if self.refuses:
            answer = Answer(
                ok=False, error=messages.ErrorInfo(code="rejected", message=self.refuses)
            )
        elif spec.pod not in self.workers:
            self.created.append(spec.pod)
            self.workers[spec.pod] = FakeWorker(self, spec)
        await self.bus.publish(message.reply, messages.encode(answer))

    async def _on_delete(self, message: Message) -> None:
        order = messages.decode(message.data, DeletePod)
        if (worker := self.workers.get(order.pod)) is not None:
            await worker.leave("deleted")
        await self.bus.publish(message.reply, messages.encode(Answer(ok=True)))

    async def warm(self, count: int, pool: str = "default") -> list[FakeWorker]:
        """Wait until so many workers of a pool are connected and have no session; return them."""

        def ready() -> list[FakeWorker]:
            return [
                w
                for w in self.workers.values()
                if w.spec.pool == pool and w.record is None and w.bus is not None
            ]

        await until(lambda: len(ready()) >= count)
        return ready()


def now_ms() -> int:
    """Return the wall clock, milliseconds since 1970."""
    return int(time.time() * 1000)


async def read_record(admin: Bus, session: str) -> tuple[Record, int]:
    """Return the record of a session that has one."""
    stored = await admin.read_last(
        subjects.state_stream(home(session)), subjects.any_pool_record(TENANT, session)
    )
    assert stored is not None
    return messages.decode(stored.data, Record), stored.seq


async def read_result(admin: Bus, session: str, task: str) -> TaskResult | None:
    """Return the stored result of a task."""
    subject = subjects.stored_result(TENANT, session, task)
    stored = await admin.read_last(subjects.state_stream(home(session)), subject)
    return None if stored is None else messages.decode(stored.data, TaskResult)


@pytest.fixture
async def clean_bus(admin_bus: Bus) -> Bus:
    """A connection that may do everything, to streams that hold nothing."""
    for stream in STREAMS:
        await admin_bus.js_api(f"STREAM.PURGE.{stream}", {})
    return admin_bus


@pytest.fixture
async def node(
    clean_bus: Bus, connect: Any, provisioned_cluster: Cluster
) -> AsyncIterator[FakeNode]:
    """A node."""
    bus = await connect(roles.local_node("node-a"), name="n-node-a")
    fake = FakeNode("node-a", bus)
    await fake.start()
    yield fake
    await fake.stop()


Start = Callable[..., Awaitable[Stop]]


def write_settings(folder: Path, cluster: Cluster, name: str, **changes: Any) -> PoolSettings:
    """Write the files of one pool-manager and return its settings."""
    pools = changes.pop("pools", [{"name": "default", "stock": 2}])
    text = "".join(
        "[[pool]]\n" + "".join(f"{k} = {msgspec.json.encode(v).decode()}\n" for k, v in p.items())
        for p in pools
    )
    (folder / "pools.toml").write_text(text)
    identity = cluster.identity
    write_secret(folder / "signer.json", msgspec.json.encode(identity.signer).decode())

    def credential(user: str, made: Credential) -> str:
        write_credential(folder / f"{user}.creds", made)
        return str(folder / f"{user}.creds")

    watcher = f"{name}-system"
    return PoolSettings(
        nats_servers=cluster.urls,
        name=name,
        credential_file=credential(name, identity.signer.mint(name, roles.pool_manager(name))),
        system_credential_file=credential(
            watcher, identity.system_signer.mint(watcher, roles.system_watcher(watcher))
        ),
        signer_file=str(folder / "signer.json"),
        pools_file=str(folder / "pools.toml"),
        ready_file=str(folder / f"{name}.ready"),
        log_level="debug",
        **changes,
    )


@pytest.fixture
async def start(
    provisioned_cluster: Cluster, clean_bus: Bus, tmp_path: Path
) -> AsyncIterator[Start]:
    """Return a function that starts a pool-manager in this process: `await start("pm-1", pools=[…])`."""
    running: list[tuple[Stop, asyncio.Task[None]]] = []

    async def begin(name: str, **changes: Any) -> Stop:
        settings = write_settings(tmp_path, provisioned_cluster, name, **changes)
        stop = Stop()
        task = asyncio.create_task(app.run(settings, stop))
        running.append((stop, task))
        assert settings.ready_file
        ready = Path(settings.ready_file)
        await until(lambda: ready.exists() or task.done())
        assert not task.done(), task.exception()
        return stop

    yield begin
    for stop, _ in running:
        stop.set("test over")
    for _, task in running:
        await asyncio.wait_for(task, 10)
