"""One pod from its start until all its processes are gone."""

from __future__ import annotations

import asyncio
import dataclasses
import signal
from typing import Any

from local_node.ports import Child, Exit, Processes, Starter
from shared import logs
from shared.errors import ServiceError
from shared.messages import PodGone, PodSpec

log = logs.get(__name__)

SANDBOX_END_S = 10.0
"""Seconds that killed processes may take to go; past them the node says that it cannot."""

RUNNER_END_S = 1.0
"""Seconds that a runner gets to end its own processes where no process namespace does it."""
_RUNNER_ENDS_ALL = ("process", "landlock")


@dataclasses.dataclass
class Pod:
    """A pod as its node knows it."""

    spec: PodSpec
    isolation: str
    ending: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)
    grace_s: float = 0.0
    """Seconds between asking the sidecar to leave and killing it."""
    deleted: bool = False
    """Its name and files are given up at the end."""

    def end(self, grace_s: float) -> None:
        """Ask for the pod's end; a shorter grace replaces a longer one."""
        self.grace_s = min(grace_s, self.grace_s) if self.ending.is_set() else grace_s
        self.ending.set()


async def run_pod(
    pod: Pod, starter: Starter, starting: asyncio.Semaphore, linger_s: float
) -> PodGone:
    """Start a pod, wait for its end, make sure that nothing of it is left.

    Args:
        pod: what to run.
        starter: the machine.
        starting: bounds how many start at once.
        linger_s: seconds that a sidecar may outlive its sandbox to save what it holds.

    Returns:
        How it ended.
    """
    spec = pod.spec
    try:
        async with starting:
            if pod.ending.is_set():
                return PodGone(pod=spec.pod, node=spec.node, cause="deleted")
            halves = await starter.start(spec, pod.isolation)
    except ServiceError as exc:
        log.warning("pod.start_failed", pod=spec.pod, isolation=pod.isolation, error=str(exc))
        return PodGone(pod=spec.pod, node=spec.node, cause="start_failed", detail=str(exc)[-500:])
    log.debug("pod.started", pod=spec.pod, isolation=pod.isolation)
    try:
        cause, ended = await _until_sidecar_ended(pod, halves, linger_s)
        await _end_sandbox(halves.sandbox, pod)
    finally:
        # A cancelled node still ends what it started: both kills are only sent here, not awaited for long.
        await asyncio.shield(_kill_both(halves))
        await asyncio.shield(starter.clean(spec.pod))
    sandbox = halves.sandbox.exited.result()
    if sandbox.code is not None and sandbox.detail:  # it could not be confined
        cause, ended = "start_failed", Exit(None, None, sandbox.detail)
    return PodGone(
        pod=spec.pod, node=spec.node, cause=cause, exit_code=ended.code, signal=ended.signal, detail=ended.detail[-500:]
    )  # fmt: skip


async def _until_sidecar_ended(pod: Pod, halves: Processes, linger_s: float) -> tuple[str, Exit]:
    """Wait for the sidecar's end: by itself, after its sandbox, with a zygote, or asked for."""
    asked = asyncio.ensure_future(pod.ending.wait())
    sidecar, sandbox = halves.sidecar, halves.sandbox
    ends = (asked, sidecar.exited, sidecar.lost, sandbox.lost)
    try:
        await _first_of(None, sandbox.exited, *ends)
        if not _any_done(*ends):
            detail = sandbox.exited.result()
            log.info(
                "sandbox.ended_first", pod=pod.spec.pod, exit_code=detail.code, signal=detail.signal
            )
            await _first_of(linger_s, *ends)
        if sidecar.exited.done() and not _any_done(sidecar.lost, sandbox.lost):
            ended = sidecar.exited.result()
            return ("exited" if ended.signal is None else "killed"), ended
        cause = "deleted" if asked.done() else "sandbox_lost"
        if not _any_done(sidecar.lost, sandbox.lost):
            await sidecar.kill(signal.SIGTERM)
            await _first_of(pod.grace_s, sidecar.exited, sidecar.lost, sandbox.lost)
        if _any_done(sidecar.lost, sandbox.lost):
            # No time to say anything: a sidecar that outlives its sandbox blames its task, and this one did nothing.
            cause = "zygote_lost"
        if not sidecar.exited.done():
            await sidecar.kill(signal.SIGKILL)
            await asyncio.wait({sidecar.exited}, timeout=SANDBOX_END_S)
        ended = sidecar.exited.result() if sidecar.exited.done() else Exit(None, 9, "still there")
        return cause, ended
    finally:
        asked.cancel()


def _any_done(*futures: asyncio.Future[Any]) -> bool:
    return any(future.done() for future in futures)


async def _first_of(timeout_s: float | None, *futures: asyncio.Future[Any]) -> None:
    await asyncio.wait(futures, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)


async def _end_sandbox(sandbox: Child, pod: Pod) -> None:
    """End the sandbox and wait until the last of its processes is gone."""
    if pod.isolation in _RUNNER_ENDS_ALL:
        # Its first process can end all others in one step that no fork slips through; from outside it is a hunt.
        await sandbox.kill(signal.SIGTERM)
        await asyncio.wait({sandbox.exited}, timeout=RUNNER_END_S)
    while not sandbox.exited.done():
        await sandbox.kill(signal.SIGKILL)
        await asyncio.wait({sandbox.exited}, timeout=SANDBOX_END_S)
        if not sandbox.exited.done():
            log.error("sandbox.still_there", pod=pod.spec.pod, pid=sandbox.pid)


async def _kill_both(halves: Processes) -> None:
    for half in (halves.sidecar, halves.sandbox):
        if not half.exited.done():
            await half.kill(signal.SIGKILL)
