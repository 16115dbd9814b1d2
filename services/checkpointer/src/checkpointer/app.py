"""Builds a node's checkpointer and joins it to the bus."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from checkpointer.adapters.contents import StoredContents
from checkpointer.adapters.heads import StreamHeads
from checkpointer.adapters.looking import SnapshotLooker
from checkpointer.adapters.pods.kubelet import KubeletPods, NodeLayout
from checkpointer.adapters.pods.local import LocalPods
from checkpointer.adapters.records import StreamRecords
from checkpointer.adapters.snapshots import SnapshotEngine
from checkpointer.adapters.stores.opening import open_store
from checkpointer.adapters.stores.over_nats import PENDING_BYTES
from checkpointer.adapters.voice import BusVoice
from checkpointer.core.scans import FileOwner
from checkpointer.core.verify import MISSING
from checkpointer.loops.beat import beat
from checkpointer.loops.collect_garbage import Collector
from checkpointer.loops.delete_session import Deleter
from checkpointer.loops.keep import Keeper
from checkpointer.loops.look_after import Caretaker
from checkpointer.loops.measure import Measured, note_bad
from checkpointer.loops.open_store import Opening
from checkpointer.loops.patient_store import PatientStore
from checkpointer.loops.probe_store import probe_store
from checkpointer.loops.scrub import Scrubber
from checkpointer.loops.serve import Desk
from checkpointer.loops.work import Bounds, Work
from checkpointer.ports.pods import PodFolders
from checkpointer.settings import CheckpointerSettings
from shared import logs, subjects
from shared.bus import Bus, BusOptions, Message, Tls
from shared.bus.renewal import follow_file
from shared.errors import ServiceError
from shared.failpoints import Failpoints
from shared.identity.files import read_credential
from shared.messages import decode, encode
from shared.metrics import DECLARED, Book
from shared.probes import Health, nats_problem, note_contact_often, probed
from shared.record import Record
from shared.service import Stop
from shared.verified import PackDamage
from shared.workspace import CheckpointAsk, CheckpointerBeat

log = logs.get(__name__)


async def run(settings: CheckpointerSettings, stop: Stop) -> None:
    """Be a node's checkpointer until `stop` is set, then finish what is under way and leave.

    Raises:
        ServiceError: it cannot start.
    """
    health, book = Health(settings.ready_file), Book(DECLARED["checkpointer"])
    async with contextlib.AsyncExitStack() as closing:
        await closing.enter_async_context(
            probed(health, book, address=settings.probes, url_file=settings.probes_url_file)
        )
        bus = await Bus.connect(_options(settings))
        closing.push_async_callback(bus.close)
        health.require("nats", nats_problem(bus))
        opening = _opening(settings)
        closing.push_async_callback(opening.close)
        health.require("store", opening.problem)
        voice = BusVoice(bus, settings.node)
        work = Measured(_work(settings, bus, opening), book, settings.age_bound_s, voice)
        async with asyncio.TaskGroup() as tasks:
            desk = Desk(work, tasks, opening.waits)
            await _serve(settings, bus, desk, tasks)
            at = Failpoints(settings.failpoints, "checkpointer").at
            looker = SnapshotLooker(lambda: opening.store)
            await _keep(bus, Keeper(at("keep", StreamHeads(bus)), looker), tasks)
            say = _beats(settings, opening, desk)
            caretaker = await _caretaker(settings, bus, opening, book)
            aside = [
                tasks.create_task(opening.run()),
                tasks.create_task(caretaker.run()),
                tasks.create_task(beat(say, voice, settings.beat_s)),
                tasks.create_task(work.watch(opening.problem)),
                tasks.create_task(note_contact_often(book, bus)),
            ]
            if settings.credential_file:
                path = Path(settings.credential_file)
                aside.append(tasks.create_task(follow_file(bus, path)))
            health.begin()
            log.info("checkpointer.ready", node=settings.subject_name)
            await stop.wait()
            health.leave()
            await desk.drain(settings.drain_s / 2)
            for task in aside:
                task.cancel()


def _opening(settings: CheckpointerSettings) -> Opening:
    async def open_it() -> PatientStore:
        options = _options(settings)
        packs = msgspec.structs.replace(
            options, name=f"{options.name}-packs", pending_bytes_max=PENDING_BYTES
        )
        bus = await Bus.connect(packs)
        try:
            store = await open_store(settings.store, settings.store_credentials_file, bus)
            await probe_store(store)
        except BaseException:
            await bus.close()
            raise
        if settings.store != "nats":
            await bus.close()  # it told whose cluster this is
        at = Failpoints(settings.failpoints, "checkpointer").at
        return PatientStore(at("patient_store", store), stall_s=settings.store_stall_s)

    return Opening(
        open_it, lambda store: SnapshotEngine(_pods(settings), store, settings.transfer_bytes)
    )


def _pods(settings: CheckpointerSettings) -> PodFolders:
    if settings.pods == "local":
        return LocalPods(Path(settings.pods_dir))
    assert settings.pod_logs_dir is not None
    assert settings.pods_namespace is not None, "both were checked"
    layout = NodeLayout(
        pods=Path(settings.pods_dir),
        pod_logs=Path(settings.pod_logs_dir),
        namespace=settings.pods_namespace,
        cache=Path(settings.cache_dir) if settings.cache_dir else None,
    )
    return KubeletPods(layout, FileOwner(settings.workspace_uid, settings.workspace_gid))


def _work(settings: CheckpointerSettings, bus: Bus, opening: Opening) -> Work:
    bounds = Bounds(saves=settings.saves_at_once, restores=settings.restores_at_once)
    at = Failpoints(settings.failpoints, "checkpointer").at
    records, heads = StreamRecords(bus), StreamHeads(bus)
    truth = (at("commit_snapshot", heads), at("commit_snapshot", records))
    return Work(settings.subject_name, opening, at("work", records), truth, bounds)


async def _caretaker(
    settings: CheckpointerSettings, bus: Bus, opening: Opening, book: Book
) -> Caretaker:
    """Return what deletes and collects; it hears every record that is stored."""
    heads, records = StreamHeads(bus), StreamRecords(bus)
    at = Failpoints(settings.failpoints, "checkpointer").at
    truth = at("collect_garbage", heads), at("collect_garbage", records)
    deleted = at("delete_session", heads)

    def found(one: PackDamage) -> None:
        note_bad(book, "scrub", is_missing=one.what == MISSING)

    def tools() -> tuple[Deleter, Collector, Scrubber]:
        store = opening.store
        contents = StoredContents(store)
        collector = Collector(store, *truth, contents)
        return (
            Deleter(collector, deleted),
            collector,
            Scrubber(store, (heads, records), contents, found),
        )

    caretaker = Caretaker(
        at("look_after", heads), at("look_after", records), tools, look_s=settings.look_s
    )

    def heard(message: Message) -> None:
        caretaker.heard(decode(message.data, Record))

    await bus.subscribe(subjects.RECORDS_LIVE, heard)
    return caretaker


def _beats(
    settings: CheckpointerSettings, opening: Opening, desk: Desk
) -> Callable[[], CheckpointerBeat]:
    """Return what makes the next heartbeat."""
    started_ms = int(time.time() * 1000)
    return lambda: CheckpointerBeat(
        node=settings.subject_name,
        started_ms=started_ms,
        store=opening.id,
        unavailable=opening.problem(),
        jobs=desk.running,
    )


def _options(settings: CheckpointerSettings) -> BusOptions:
    path = settings.credential_file
    return BusOptions(
        servers=settings.servers,
        name=f"ckpt-{settings.subject_name}",
        # Read again at each connect: whoever started the node may have renewed it.
        credential=(lambda: read_credential(Path(path))) if path else None,
        tls=None if settings.ca_file is None else Tls(ca_file=settings.ca_file),
    )


async def _serve(
    settings: CheckpointerSettings, bus: Bus, desk: Desk, tasks: asyncio.TaskGroup
) -> None:
    """Answer what is asked about this node's pods: each request in a task of its own, since it waits for news."""

    async def answer(message: Message) -> None:
        asker = message.subject.rpartition(".")[2]
        try:
            said = await desk.answer(asker, decode(message.data, CheckpointAsk))
            if message.reply:
                await bus.publish(message.reply, encode(said))
        except ServiceError as exc:  # nonsense, or nobody hears the answer: it is asked again
            log.warning("ask.not_answered", asker=asker, error=str(exc))

    def heard(message: Message) -> None:
        tasks.create_task(answer(message), name="answer")

    await bus.subscribe(subjects.checkpoint(settings.subject_name, "*"), heard)


async def _keep(bus: Bus, keeper: Keeper, tasks: asyncio.TaskGroup) -> None:
    """Answer what needs no pod: one of all checkpointers gets each request."""

    async def answer(message: Message) -> None:
        said = await keeper.serve(message.subject.rpartition(".")[2], message.data)
        with contextlib.suppress(ServiceError):  # nobody hears it: it is asked again
            await bus.publish(message.reply, encode(said))

    def heard(message: Message) -> None:
        if message.reply:
            tasks.create_task(answer(message), name="keep")

    await bus.subscribe(subjects.any_checkpointer("*"), heard, queue=subjects.CHECKPOINTER_GROUP)
