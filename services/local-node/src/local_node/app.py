"""Builds a node and joins it to the bus: requests in, heartbeats and endings out."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec

from local_node.adapters.companion import Companion
from local_node.adapters.counted import CountedStarter, CountedVoice
from local_node.adapters.machine import Machine, look, open_machine
from local_node.adapters.voice import BusVoice
from local_node.loops.beat import beat
from local_node.loops.clear_away import clear_away
from local_node.loops.hold_pods import HoldSettings, Pods
from local_node.settings import NodeSettings
from shared import logs, subjects
from shared.bus import Bus, BusOptions, Handler, Message
from shared.bus.renewal import follow_file
from shared.errors import InvariantBroken, ServiceError
from shared.identity.files import read_credential
from shared.machine import MachineView
from shared.messages import Answer, DeletePod, PodSpec, decode, encode
from shared.metrics import DECLARED, Book
from shared.probes import Health, nats_problem, note_contact_often, probed
from shared.service import Stop

log = logs.get(__name__)


async def run(settings: NodeSettings, stop: Stop) -> None:
    """Be a node until `stop` is set, then end every pod and leave.

    Raises:
        ServiceError: it cannot start.
        InvariantBroken: a zygote died and was not replaced; whoever started the node starts it again.
    """
    died: list[str] = []

    def on_death(zygote: str) -> None:
        died.append(zygote)
        stop.set(f"zygote {zygote} died")

    health, book = Health(settings.ready_file), Book(DECLARED["local-node"])
    async with contextlib.AsyncExitStack() as closing:
        await closing.enter_async_context(
            probed(health, book, address=settings.probes, url_file=settings.probes_url_file)
        )
        machine = await closing.enter_async_context(open_machine(settings, on_death))
        if settings.checkpointer:
            await closing.enter_async_context(_kept(Companion(settings.checkpointer)))
        bus = await Bus.connect(_options(settings))
        closing.push_async_callback(bus.close)
        health.require("nats", nats_problem(bus))
        async with asyncio.TaskGroup() as tasks:
            voice = CountedVoice(BusVoice(bus), book)
            starter = CountedStarter(machine.starter, book)
            pods = Pods(_bounds(settings), starter, voice, tasks)
            await _serve(settings, machine, bus, pods)
            available = machine.sandboxes.available
            started_ms = int(time.time() * 1000)
            aside = [
                tasks.create_task(
                    beat(lambda: pods.beat(started_ms, available), voice, settings.beat_s)
                ),
                tasks.create_task(note_contact_often(book, bus)),
                tasks.create_task(clear_away(pods, machine.files.empty_trash)),
            ]
            if settings.credential_file:
                path = Path(settings.credential_file)
                aside.append(tasks.create_task(follow_file(bus, path)))
            health.begin()
            log.info("node.ready", node=settings.name, isolation=available)
            await stop.wait()
            health.leave()
            await pods.drain(settings.drain_s * 2 / 3, settings.drain_s * 5 / 6)
            for task in aside:
                task.cancel()
    if died:
        raise InvariantBroken(f"zygotes died: {', '.join(died)}")


@contextlib.asynccontextmanager
async def _kept(companion: Companion) -> AsyncIterator[None]:
    """Keep a companion running while inside: until the last pod has saved what it holds."""
    keeping = asyncio.create_task(companion.keep(), name="companion")
    try:
        yield
    finally:
        await companion.stop()
        await keeping


async def probe(settings: NodeSettings) -> MachineView:
    """Return what a node with these settings would find on this machine.

    Raises:
        ServiceError: it could not start.
    """
    return await look(settings)


def _options(settings: NodeSettings) -> BusOptions:
    path = settings.credential_file
    return BusOptions(
        servers=settings.servers,
        name=f"n-{settings.name}",
        # Read again at each connect: whoever started the node may have renewed it.
        credential=(lambda: read_credential(Path(path))) if path else None,
    )


def _bounds(settings: NodeSettings) -> HoldSettings:
    return HoldSettings(
        node=settings.name,
        pods_max=settings.pods_max,
        starting_max=settings.starting_max,
        linger_s=settings.linger_s,
        dead_kept_s=settings.dead_kept_s,
    )


async def _serve(settings: NodeSettings, machine: Machine, bus: Bus, pods: Pods) -> None:
    """Answer requests to start and end pods; both at once, as the work goes on aside."""

    def create(body: bytes) -> None:
        spec = decode(body, PodSpec)
        if not spec.servers:
            spec = msgspec.structs.replace(spec, servers=settings.servers)
        pods.create(spec, machine.sandboxes.available)

    def delete(body: bytes) -> None:
        order = decode(body, DeletePod)
        pods.delete(order.pod, order.grace_s)

    def answering(handle: Callable[[bytes], None]) -> Handler:
        async def answer(message: Message) -> None:
            try:
                handle(message.data)
                said = Answer(ok=True)
            except ServiceError as exc:
                log.warning("request.refused", subject=message.subject, error=str(exc))
                said = Answer(ok=False, error=exc.info())
            if message.reply:
                await bus.publish(message.reply, encode(said))

        return answer

    await bus.subscribe(subjects.node_create(settings.name), answering(create))
    await bus.subscribe(subjects.node_delete(settings.name), answering(delete))
