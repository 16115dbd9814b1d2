"""Builds a node's checkpointer and joins it to the bus."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path

from checkpointer.adapters.voice import BusVoice
from checkpointer.loops.beat import beat
from checkpointer.settings import CheckpointerSettings
from shared import logs
from shared.bus import Bus, BusOptions
from shared.bus.renewal import follow_file
from shared.identity.files import read_credential
from shared.metrics import DECLARED, Book
from shared.probes import Health, nats_problem, note_contact_often, probed
from shared.service import Stop
from shared.workspace import CheckpointerBeat

log = logs.get(__name__)


async def run(settings: CheckpointerSettings, stop: Stop) -> None:
    """Be a node's checkpointer until `stop` is set, then finish what is being saved and leave.

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
        started_ms = int(time.time() * 1000)
        async with asyncio.TaskGroup() as tasks:
            aside = [
                tasks.create_task(
                    beat(lambda: _beat(settings, started_ms), BusVoice(bus), settings.beat_s)
                ),
                tasks.create_task(note_contact_often(book, bus)),
            ]
            if settings.credential_file:
                path = Path(settings.credential_file)
                aside.append(tasks.create_task(follow_file(bus, path)))
            health.begin()
            log.info("checkpointer.ready", node=settings.node)
            await stop.wait()
            health.leave()
            for task in aside:
                task.cancel()


def _beat(settings: CheckpointerSettings, started_ms: int) -> CheckpointerBeat:
    return CheckpointerBeat(
        node=settings.node, started_ms=started_ms, unavailable="it saves nothing yet"
    )


def _options(settings: CheckpointerSettings) -> BusOptions:
    path = settings.credential_file
    return BusOptions(
        servers=settings.servers,
        name=f"ckpt-{settings.node}",
        # Read again at each connect: whoever started the node may have renewed it.
        credential=(lambda: read_credential(Path(path))) if path else None,
    )
