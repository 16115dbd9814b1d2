"""Builds a keeper and joins it to the bus."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from shared import logs, subjects
from shared.bus import Bus, BusOptions, Message, Tls
from shared.bus.renewal import follow_file
from shared.errors import ServiceError
from shared.identity.files import read_credential
from shared.identity.roles import KEEPER
from shared.messages import decode, encode
from shared.metrics import DECLARED, Book, declared
from shared.probes import Health, nats_problem, note_contact_often, probed
from shared.record import Record
from shared.service import Stop
from shared.volumes import GROUP
from volume_keeper.adapters.folders import SharedFolders
from volume_keeper.adapters.records import StreamRecords
from volume_keeper.loops.forget import Forgetter
from volume_keeper.loops.serve import Desk
from volume_keeper.loops.threads import Threads
from volume_keeper.settings import KeeperSettings

log = logs.get(__name__)

BEGIN_S = 30.0
AT_ONCE = 16
"""Calls to the volume for requests, at once."""
ASIDE = 2
"""And for what ended."""
NOTE_S = 1.0


async def run(settings: KeeperSettings, stop: Stop) -> None:
    """Be a keeper until `stop` is set.

    Raises:
        ServiceError: it cannot start.
    """
    called = f"the volume of pool {settings.pool}"
    folders = SharedFolders(Path(settings.volume), called)
    asked, aside_of_it = Threads(called, AT_ONCE), Threads(called, ASIDE)
    await asked.run(folders.begin, BEGIN_S)
    health, book = Health(settings.ready_file), Book(DECLARED["volume-keeper"])
    async with contextlib.AsyncExitStack() as closing:
        await closing.enter_async_context(
            probed(health, book, address=settings.probes, url_file=settings.probes_url_file)
        )
        bus = await Bus.connect(_options(settings))
        closing.push_async_callback(bus.close)
        health.require("nats", nats_problem(bus))
        health.require("volume", asked.problem)
        records = StreamRecords(bus)
        forgetter = Forgetter(folders, records, aside_of_it, settings.pool, settings.look_s)
        forgetter.book = book
        bus.on_lost, bus.on_restored = forgetter.lost, forgetter.restored
        async with asyncio.TaskGroup() as tasks:
            await _hear(bus, settings.pool, forgetter)
            await _serve(
                bus, settings.pool, Desk(folders, records, asked, settings.pool, book), tasks
            )
            aside = [
                tasks.create_task(forgetter.run()),
                tasks.create_task(note_contact_often(book, bus)),
                tasks.create_task(_note_hanging(book, settings.pool, asked, aside_of_it)),
            ]
            if settings.credential_file:
                aside.append(tasks.create_task(follow_file(bus, Path(settings.credential_file))))
            health.begin()
            log.info("keeper.ready", pool=settings.pool)
            await stop.wait()
            health.leave()
            for task in aside:
                task.cancel()


async def _hear(bus: Bus, pool: str, forgetter: Forgetter) -> None:
    await bus.subscribe(
        subjects.record_live(pool), lambda m: forgetter.heard_record(decode(m.data, Record))
    )
    await bus.subscribe(
        subjects.heartbeat(pool), lambda m: forgetter.heard_worker(m.subject.rpartition(".")[2])
    )


async def _serve(bus: Bus, pool: str, desk: Desk, tasks: asyncio.TaskGroup) -> None:
    async def answer(message: Message) -> None:
        _, _, op, pod = message.subject.split(".")
        said = await desk.answer(op, pod, message.data)
        with contextlib.suppress(ServiceError):  # nobody hears it: it is asked again
            await bus.publish(message.reply, encode(said))

    def heard(message: Message) -> None:
        if message.reply:
            tasks.create_task(answer(message), name="answer")

    await bus.subscribe(subjects.volume(pool), heard, queue=GROUP)


async def _note_hanging(book: Book, pool: str, *threads: Threads) -> None:
    while True:
        hanging = sum(each.hanging for each in threads)
        book.set(declared.VOLUME_HANGING, pool, value=hanging)
        await asyncio.sleep(NOTE_S)


def _options(settings: KeeperSettings) -> BusOptions:
    path = settings.credential_file
    return BusOptions(
        servers=settings.servers,
        name=f"{KEEPER}-{settings.name}",
        credential=(lambda: read_credential(Path(path))) if path else None,
        tls=None if settings.ca_file is None else Tls(ca_file=settings.ca_file),
    )
