"""Builds a pool-manager and joins it to the bus."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pool_manager.adapters.connection import connection
from pool_manager.adapters.files import read_pools, read_signer
from pool_manager.adapters.leaders import StreamLeaders
from pool_manager.adapters.letters import StreamLetters
from pool_manager.adapters.nodes import BusVoice, BusWorkers, LocalPods, StreamSlots, StreamStocks
from pool_manager.adapters.objects import StreamObjects
from pool_manager.adapters.outputs import StreamOutputs
from pool_manager.adapters.queue import StreamQueue
from pool_manager.adapters.results import StreamResults
from pool_manager.adapters.spans import SpanExport
from pool_manager.adapters.truth import StreamTruth
from pool_manager.clusters import check_places, kube_side, reach
from pool_manager.core.clock import ServerClock
from pool_manager.core.world import World
from pool_manager.desks import make_mint, make_snapshot_desk
from pool_manager.loops.answer import Answerer, Sources
from pool_manager.loops.balance import Balancer
from pool_manager.loops.beat import keep_beating, say_leaving
from pool_manager.loops.cancel import Canceller
from pool_manager.loops.expire import Expirer
from pool_manager.loops.hear import Ears
from pool_manager.loops.learn import Learner
from pool_manager.loops.measure import Measurer
from pool_manager.loops.note import Notes
from pool_manager.loops.objects import ObjectKeeper
from pool_manager.loops.overdue import Overdue
from pool_manager.loops.quota import QuotaKeeper
from pool_manager.loops.refill import Refiller
from pool_manager.loops.renew import Renewer
from pool_manager.loops.replay import Replayer
from pool_manager.loops.ring import Ringer
from pool_manager.loops.shards import ShardWatch
from pool_manager.loops.stock import Stocker
from pool_manager.loops.sweep import Keepers, Sweeper
from pool_manager.loops.wake import Waker
from pool_manager.ports.pods import Pods
from pool_manager.recovering import make_recoverer
from pool_manager.settings import PoolSettings, bounds_of, quotas_of, times_of
from shared import logs, subjects
from shared.bus import Bus, Subscription
from shared.errors import ServiceError
from shared.failpoints import Failpoints
from shared.identity import WorkerSigner
from shared.metrics import DECLARED, Book
from shared.pools import PoolSpec
from shared.probes import Health, nats_problem, note_contact_often, probed
from shared.service import Stop
from shared.traces import PlainTracer
from shared.traces.settings import Traces

if TYPE_CHECKING:
    from pool_manager.placing import Reached

log = logs.get(__name__)

FINISH_S = 2.0
"""For what is under way when the service leaves."""


class Manager:
    """One pool-manager."""

    def __init__(
        self,
        settings: PoolSettings,
        declared: tuple[tuple[PoolSpec, ...], WorkerSigner],
        bus: Bus,
        notes: Notes,
        reached: Reached | None = None,
    ) -> None:
        """Join adapters and loops.

        Args:
            settings: of this pool-manager.
            declared: the pools, and what mints their workers.
            bus: its connection.
            notes: take what is done for tasks that are traced.
            reached: the Kubernetes cluster that runs the pods; None: nodes of ours do.
        """
        pools, signer = declared
        self._bus = bus
        self._account = signer.account
        now, now_ms = time.monotonic(), int(time.time() * 1000)
        self.world = World(settings.name, pools, bounds_of(settings), now, now_ms)
        clock = ServerClock()
        truth, queue = StreamTruth(bus, clock, notes.ended), StreamQueue(bus, clock)
        slots, letters = StreamSlots(bus), StreamLetters(bus)
        at = Failpoints(settings.failpoints, "pool_manager").at
        self._voice = at("beat", voice := BusVoice(bus))
        self._kube = kube = kube_side(reached, self.world, pools, settings)
        pods: Pods = LocalPods(bus) if kube is None else kube.pods
        servers = settings.nats_servers if kube is None else kube.servers
        mint = make_mint(settings, declared, servers, notes.sampling)
        self._refiller = Refiller(self.world, at("refill", slots), at("refill", pods), mint)
        self._refiller.times = times_of(settings)
        self._stocker = Stocker(self.world, at("stock", StreamStocks(bus)), self._refiller.wanted)
        self._recoverer = make_recoverer(self.world, bus, (truth, queue, letters, pods), at, notes)
        self._waker = Waker(self.world, at("wake", truth), at("wake", queue), notes)
        self._ringer = Ringer(self.world, at("ring", queue), self._refiller.wanted)
        self._quotas = QuotaKeeper(self.world, truth, voice, mint, quotas_of(settings))
        self._overdue = Overdue(
            self.world,
            at("overdue", truth),
            at("overdue", letters),
            clock=clock,
            unknown_after_s=settings.unknown_after_s,
        )
        keepers, swept = Keepers(self._quotas, self._overdue), at("sweep", truth)
        self._sweeper = Sweeper(self.world, swept, at("sweep", queue), self._waker, keepers)
        self._sweeper.every_s = settings.survey_s
        self._expirer = Expirer(self.world, at("expire", truth), at("expire", queue), clock)
        self._expirer.kept_s = settings.kept_s
        workers = at("cancel", BusWorkers(bus))
        self._canceller = Canceller(self.world, at("cancel", truth), workers, at("cancel", voice))
        objects = StreamObjects(bus)
        self._answerer = Answerer(
            self.world,
            Sources(at("answer", truth), StreamResults(bus), letters),
            at("answer", voice),
            objects.drop,
        )
        self._replayer = Replayer(at("replay", StreamOutputs(bus)))
        self._snapshots = make_snapshot_desk(self.world, bus, truth, at, settings)
        self._add_desks()
        self._objects = ObjectKeeper(self.world, objects, settings.tenant_object_bytes_max)
        self._renewer = Renewer(self.world, mint, voice)
        self._balancer = Balancer(self.world, StreamLeaders(bus, pools))
        self._shards = ShardWatch(truth, voice)
        self._learner = Learner(self.world, at("learn", truth), at("learn", slots))
        if kube is not None:
            kube.enrol_with(slots, mint, voice)
        self._ears = Ears(self.world, self._refiller, self._recoverer, self._waker, self._ringer)

    def _add_desks(self) -> None:
        self._answerer.add("output", self._replayer.serve, self._replayer.hands)
        self._answerer.add_all(self._snapshots.serves, self._snapshots.hands)

    async def run(self, stop: Stop, health: Health, book: Book) -> None:
        """Work until `stop` is set, then finish what is under way and leave."""
        measurer = Measurer(book, self.world, self._refiller, lambda: self._shards.silent)
        self._recoverer.on_revoked = measurer.revoked
        health.require("nats", nats_problem(self._bus))
        health.require("shards", self._shards.problem)
        await self._hear()
        self._bus.on_lost = self.world.hearing.cut
        self._bus.on_restored = self._restored
        await self._learn(stop)
        hands = [
            self._refiller.hands,
            self._recoverer.hands,
            self._recoverer.rescuer.hands,
            self._waker.hands,
            self._sweeper.hands,
            self._quotas.hands,
            self._overdue.hands,
            self._canceller.hands,
            self._answerer.hands,
            self._replayer.hands,
            self._snapshots.hands,
        ]
        loops: list[Callable[[], Coroutine[Any, Any, None]]] = [
            lambda: keep_beating(self._voice, self.world.peers.me),
            self._refiller.run,
            self._recoverer.run,
            self._waker.run,
            self._ringer.run,
            self._stocker.run,
            self._learner.run,
            self._sweeper.run,
            self._quotas.run,
            self._objects.run,
            self._overdue.run,
            self._snapshots.run,
            self._expirer.run,
            self._balancer.run,
            self._shards.run,
            measurer.run,
            lambda: note_contact_often(book, self._bus),
        ]
        if self._kube is not None:
            self._kube.tell(self._refiller.wanted.set, self._recoverer.wanted.set)
            loops += [self._kube.watcher.run, self._kube.volumes.run]
            hands += self._kube.hands
        async with self._bus.watch_contact(), asyncio.TaskGroup() as group:
            aside = [group.create_task(loop()) for loop in loops]
            moving = [group.create_task(each.run()) for each in hands]
            served = await self._serve(measurer)
            health.begin()
            log.info("manager.ready", pools=list(self.world.pools))
            await stop.wait()
            health.leave()
            for subscription in served:
                await subscription.drain(deadline_s=0.5)
            for task in aside:
                task.cancel()
            await say_leaving(self._voice, self.world.peers.me)
            for each in hands:
                await each.finish(FINISH_S / len(hands))
            for task in moving:
                task.cancel()

    async def hear_servers(self, bus: Bus) -> None:
        """Hear workers' connects and disconnects, on a connection to the servers' own account.

        Whoever connects gives himself a name: clients, whose account is another, could give themselves a worker's.
        """
        await bus.subscribe(f"$SYS.ACCOUNT.{self._account}.CONNECT", self._ears.connected)
        await bus.subscribe(f"$SYS.ACCOUNT.{self._account}.DISCONNECT", self._ears.disconnected)

    async def _hear(self) -> None:
        ears = self._ears
        await self._bus.subscribe(subjects.manager_heartbeat(), ears.manager)
        await self._bus.subscribe(subjects.RECORDS_LIVE, ears.record)
        await self._bus.subscribe(subjects.slot_live("*"), ears.slot)
        await self._bus.subscribe(subjects.node_heartbeat(), ears.node)
        await self._bus.subscribe(subjects.checkpointer_heartbeat(), ears.checkpointer)
        await self._bus.subscribe(subjects.heartbeat("*"), ears.worker)
        await self._bus.subscribe(subjects.gone("*"), ears.gone)
        await self._bus.subscribe(subjects.wake(), ears.wake)
        await self._bus.subscribe(subjects.bells("*"), ears.bell)

    async def _serve(self, measurer: Measurer) -> list[Subscription]:
        """Take requests, and results to measure: one of all pool-managers gets each."""
        group = subjects.MANAGER_GROUP
        return [
            *([] if self._kube is None else [await self._kube.serve(self._bus)]),
            await self._bus.subscribe("cancel.*.*.*", self._canceller.heard, queue=group),
            await self._bus.subscribe("ask.*.*", self._answerer.heard, queue=group),
            await self._bus.subscribe(subjects.renew(), self._renewer.heard, queue=group),
            await self._bus.subscribe(subjects.done("*"), measurer.result, queue=group),
        ]

    async def _learn(self, stop: Stop) -> None:
        """Read everything once; servers that have just started may need some seconds for it."""
        while not stop.is_set:
            try:
                await self._learner.read_all()
            except ServiceError as exc:
                log.warning("scan.failed", code=exc.code, error=str(exc))
                await stop.wait(1.0)
            else:
                return

    def _restored(self) -> None:
        """Events were missed while there was no connection."""
        self.world.was_deaf(time.monotonic())
        self._learner.wanted.set()
        self._sweeper.survey_soon()


async def run(settings: PoolSettings, stop: Stop, traces: Traces | None = None) -> None:
    """Be a pool-manager until `stop` is set; spans go where `traces` says.

    Raises:
        ServiceError: it cannot start.
    """
    pools = read_pools(Path(settings.pools_file))
    check_places(pools, settings)
    signer = read_signer(Path(settings.signer_file))
    log.info("manager.connecting", servers=len(settings.nats_servers))
    export = SpanExport(traces.sink, settings.name) if traces else None
    tracer = PlainTracer(export.tell) if export else None
    notes = Notes(tracer, traces.sampling if traces else None)
    health, book = Health(settings.ready_file), Book(DECLARED["pool-manager"])
    async with AsyncExitStack() as closing:
        await closing.enter_async_context(
            probed(health, book, address=settings.probes, url_file=settings.probes_url_file)
        )
        bus = await closing.enter_async_context(
            connection(settings, settings.name, settings.credential_file, stop, tracer)
        )
        reached = await reach(settings, closing)
        manager = Manager(settings, (pools, signer), bus, notes, reached)
        if export is not None:
            await export.hear(bus)
        if settings.system_credential_file is not None:
            name, path = f"{settings.name}-system", settings.system_credential_file
            servers = await closing.enter_async_context(connection(settings, name, path, stop))
            await manager.hear_servers(servers)
        await manager.run(stop, health, book)
