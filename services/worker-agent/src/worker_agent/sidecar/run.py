"""The sidecar's life between boot and burial."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from shared import logs, service
from shared.errors import Rejected, ServiceError, Unavailable
from shared.messages import PodSpec
from shared.service import EXIT_FAILED, Stop
from shared.settings import SettingsError, load
from worker_agent import app
from worker_agent.adapters.runner import RunnerChannel, RunnerLimits
from worker_agent.adapters.sandbox import RunnerSandbox
from worker_agent.core.fitness import why_unfit
from worker_agent.pod import PREFIX as WORKER_PREFIX
from worker_agent.pod import Pod, SandboxFacts
from worker_agent.settings import WorkerSettings
from worker_agent.sidecar.boot import shut
from worker_agent.sidecar.enrol import enrol, tls_of
from worker_agent.sidecar.inside import look
from worker_agent.sidecar.settings import PREFIX, SidecarSettings

log = logs.get(__name__)

HELLO_S = 30.0
"""Between the connection of the sandbox's container and its runner's first word: it confines itself meanwhile."""
ENFORCED = ("memory", "cpu", "pids")
WATCHED = ("disk",)
"""The kubelet evicts a pod whose workspace is too large, but late."""

T = TypeVar("T")


def run(listener: socket.socket) -> tuple[int, str]:
    """Serve one session; return the exit code, and why it came to nothing, if it did."""
    try:
        settings = load(SidecarSettings, PREFIX, os.environ)
    except SettingsError as exc:
        return EXIT_FAILED, str(exc)
    logs.configure(service="worker-agent", level="info", instance=settings.name)
    why: list[str] = []

    async def serve(stop: Stop) -> None:
        try:
            await _serve(settings, listener, stop)
        except ServiceError as exc:
            why.append(str(exc))
            raise

    # What lives as long as the sidecar is not looked at again by the collector.
    gc.freeze()
    gc.enable()
    code = asyncio.run(service.run(serve, drain_s=settings.drain_s))
    return code, "; ".join(why)


async def _serve(settings: SidecarSettings, listener: socket.socket, stop: Stop) -> None:
    """Become a worker and be one.

    Raises:
        Rejected: this pod is not what it was to be, or the pool-managers refuse it.
        Unavailable: no credential, or no sandbox.
    """
    unfit = why_unfit(settings.isolation, look())
    if unfit:
        raise Rejected(unfit)
    async with _runner(settings, listener) as taking:
        spec = await _unless(stop, enrol(settings))
        channel = None if spec is None else await _unless(stop, asyncio.shield(taking))
        if spec is None or channel is None or channel.leaving:
            return
        channel.on_leaving = lambda: stop.set("sandbox_leaving")
        pod = _pod(settings, spec, channel.hello.network)
        logs.configure(service="worker-agent", level=pod.settings.log_level, instance=settings.name)
        log.info("pod.enrolled", node=spec.node, network=channel.hello.network)
        await app.serve(pod, _ready(RunnerSandbox(channel, pod)), stop)


async def _ready(sandbox: RunnerSandbox) -> RunnerSandbox:
    return sandbox


@asynccontextmanager
async def _runner(
    settings: SidecarSettings, listener: socket.socket
) -> AsyncIterator[asyncio.Future[RunnerChannel]]:
    """Have the sandbox's runner as soon as it is there; it ends when this does."""
    taking = asyncio.ensure_future(_take_runner(settings, listener))
    try:
        yield taking
    finally:
        taking.cancel()
        await asyncio.wait({taking})
        if not taking.cancelled() and taking.exception() is None:
            await taking.result().close()


async def _take_runner(settings: SidecarSettings, listener: socket.socket) -> RunnerChannel:
    """Take the sandbox's one connection.

    Raises:
        Unavailable: its container does not come up, or its runner says nothing.
    """
    listener.setblocking(False)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(settings.sandbox_s):
            connection, _ = await loop.sock_accept(listener)
    except TimeoutError as exc:
        raise Unavailable(f"no sandbox within {settings.sandbox_s:.0f} s") from exc
    shut(listener)
    return await RunnerChannel.open(connection.detach(), RunnerLimits(hello_s=HELLO_S))


def _pod(settings: SidecarSettings, spec: PodSpec, network: str) -> Pod:
    worker = load(WorkerSettings, WORKER_PREFIX, spec.settings)
    on_volume = worker.workspace == "pvc"
    facts = SandboxFacts(
        isolation=settings.isolation,
        workspace=settings.workspace,
        enforced=ENFORCED,
        watch=() if on_volume else WATCHED,  # the volume has a size, and may hold millions of files
        in_container=True,
        network=network,
        checkpointer=settings.checkpointer and not on_volume,
    )
    return Pod(
        spec=spec,
        folder=Path(settings.own_dir),
        sandbox=facts,
        settings=worker,
        tls=tls_of(settings),
    )


async def _unless(stop: Stop, doing: Awaitable[T]) -> T | None:
    """Wait for something, but only until the pod is to end; None: it is."""
    work = asyncio.ensure_future(doing)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return work.result() if work.done() else None
    finally:
        work.cancel()
        stopping.cancel()
