"""The play: connect, hear a bell, pull, claim, run, commit, leave; a few times over."""

from __future__ import annotations

import asyncio
import gc
import socket
import tempfile
from contextlib import suppress
from pathlib import Path

from shared import logs, task
from shared.errors import ServiceError
from shared.identity import make_key
from shared.messages import Credential, PodSpec
from shared.pools import PodLimits
from shared.service import Stop
from worker_agent import app
from worker_agent.adapters.sandbox import RunnerSandbox
from worker_agent.pod import Pod, SandboxFacts
from worker_agent.rehearsal.runner import play_runner
from worker_agent.rehearsal.server import StandInServer
from worker_agent.settings import WorkerSettings

PASSES = 10
"""The interpreter specialises code after eight calls."""
PASS_S = 2.0
"""Longest pass; one takes 3 ms."""
POOL = "rehearsal"


def rehearse() -> None:
    """Play a worker's life through; what can't be played (no loopback) is not, and workers start a little colder."""
    logs.configure(service="rehearsal", level="warning")
    log = logs.get(__name__)
    try:
        for _ in range(PASSES):
            asyncio.run(_play())
    except (OSError, ServiceError, TimeoutError) as exc:
        log.warning("rehearsal.failed", error=repr(exc))
    gc.collect()


async def _play() -> None:
    server = StandInServer(POOL, task.encode_task(task.Python(code="1")))
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    ours, theirs = socket.socketpair()
    with tempfile.TemporaryDirectory(prefix="agent-sandbox-") as folder, theirs:
        runner = asyncio.ensure_future(play_runner(theirs))
        pod = _pod(Path(folder), listener.sockets[0].getsockname()[1])
        try:
            async with asyncio.timeout(PASS_S):
                await app.serve(pod, RunnerSandbox.open(ours.detach(), pod), Stop())
        finally:
            runner.cancel()
            with suppress(asyncio.CancelledError, OSError):
                await runner
            listener.close()


def _pod(folder: Path, port: int) -> Pod:
    return Pod(
        spec=PodSpec(
            pod=f"{POOL}-0-1",
            pool=POOL,
            node=POOL,
            isolation="process",
            limits=PodLimits(),
            credential=Credential(jwt="a.b.c", seed=make_key("user").seed),
            servers=(f"nats://127.0.0.1:{port}",),
        ),
        folder=folder,
        sandbox=SandboxFacts(isolation="process", workspace=str(folder)),
        settings=WorkerSettings(),
    )
