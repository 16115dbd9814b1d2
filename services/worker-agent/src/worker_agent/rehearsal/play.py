"""The play: connect, hear a bell, pull, claim, run, commit, leave; a few times over."""

from __future__ import annotations

import asyncio
import gc
import io
import socket
import tempfile
from contextlib import redirect_stdout, suppress
from typing import Any

import msgspec

from shared import logs, task
from shared.errors import ServiceError
from shared.identity import make_key
from shared.messages import Credential, PodSpec
from shared.pools import PodLimits
from worker_agent.life import live
from worker_agent.pod import read_pod
from worker_agent.rehearsal.runner import play_runner
from worker_agent.rehearsal.server import StandInServer

PASSES = 10
"""The interpreter specialises code after eight calls."""
PASS_S = 2.0
"""Longest pass; one takes 3 ms."""
POOL = "rehearsal"


def rehearse() -> None:
    """Play a worker's life through; what can't be played (no loopback) is not, and workers start a little colder."""
    log = logs.get(__name__)
    try:
        # Its lines are written as a worker's are, but to nobody.
        with redirect_stdout(io.StringIO()):
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
        pod = read_pod(_spec(folder, listener.sockets[0].getsockname()[1]), folder, 0, None)
        try:
            async with asyncio.timeout(PASS_S):
                await live(pod, ours.detach())
        finally:
            runner.cancel()
            with suppress(asyncio.CancelledError, OSError):
                await runner
            listener.close()


def _spec(folder: str, port: int) -> dict[str, Any]:
    """Return what a node hands to a worker."""
    spec = PodSpec(
        pod=f"{POOL}-0-1",
        pool=POOL,
        node=POOL,
        isolation="process",
        limits=PodLimits(),
        credential=Credential(jwt="a.e30.c", seed=make_key("user").seed),
        servers=(f"nats://127.0.0.1:{port}",),
        settings={"WORKER_IDLE_RELEASE_S": "1", "WORKER_ON_INTERRUPT": "rerun"},
    )
    sandbox = {"isolation": "process", "workspace": folder, "watch": ["disk"]}
    return {**msgspec.to_builtins(spec), "sandbox": sandbox}
