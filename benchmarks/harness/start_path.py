"""A node's own way to start a pod, without queue, pool-manager and NATS."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from pathlib import Path
from typing import NamedTuple

from harness import start_probe
from harness.running import CannotMeasure, fresh_folder, say
from local_node.adapters.machine import Machine, open_machine
from local_node.settings import NodeSettings
from shared.messages import Credential, PodSpec
from shared.pools import ISOLATION_CLASSES, PodLimits

NODE = "bench"
END_S = 10.0


class Start(NamedTuple):
    """One start, milliseconds."""

    forked_ms: float
    """Until the node had both processes."""
    ready_ms: float
    """Until the confined sandbox had said hello to its sidecar."""


async def measure_starts(count: int, isolation: str, pause_s: float) -> tuple[str, list[Start]]:
    """Start so many pods one after another; return the isolation class that they had, and their times.

    Raises:
        CannotMeasure: this machine does not have the class, or a sandbox did not come up.
        ServiceError: the node's parts cannot be opened.
    """
    died: list[str] = []
    with fresh_folder() as folder:
        settings = NodeSettings(
            name=NODE, dir=str(folder / "node"), sidecar_module=start_probe.__name__
        )
        async with open_machine(settings, died.append) as machine:
            chosen = _choose(isolation, machine.sandboxes.available)
            say(f"start path: {count} starts of class {chosen}")
            starts = []
            for number in range(count + 1):
                start = await _start_one(machine, folder / "node", f"start-{number}", chosen)
                if number:  # the first pays for what all share
                    starts.append(start)
                await asyncio.sleep(pause_s)
    if died:
        raise CannotMeasure(f"zygotes died: {', '.join(died)}")
    return chosen, starts


def _choose(isolation: str, available: dict[str, str]) -> str:
    """Return the class to start: the one that is named, or the strongest that there is."""
    if isolation == "auto":
        there = [name for name in ISOLATION_CLASSES if not available.get(name, "-")]
        if not there:
            raise CannotMeasure(f"no isolation class on this machine: {available}")
        return there[-1]
    if available.get(isolation, "unknown"):
        raise CannotMeasure(f"isolation class {isolation}: {available.get(isolation, 'unknown')}")
    return isolation


async def _start_one(machine: Machine, folder: Path, pod: str, isolation: str) -> Start:
    spec = PodSpec(
        pod=pod,
        pool="start",
        node=NODE,
        isolation=isolation,
        limits=PodLimits(),
        credential=Credential(jwt="", seed=""),
    )
    called_ns = time.time_ns()
    halves = await machine.starter.start(spec, isolation)
    forked_ns = time.time_ns()
    async with asyncio.timeout(start_probe.WAIT_S + END_S):
        ended = await halves.sidecar.exited
    try:
        if ended.code != 0:
            raise CannotMeasure(f"pod {pod}: its sandbox did not come up: {halves.sandbox.exited}")
        said = (folder / "pods" / pod / start_probe.HELLO_FILE).read_text()
    finally:
        await halves.sandbox.kill(signal.SIGKILL)
        async with asyncio.timeout(END_S):
            await halves.sandbox.exited
        await machine.starter.clean(pod)
        machine.starter.discard(pod)
    return Start((forked_ns - called_ns) / 1e6, (int(said) - called_ns) / 1e6)


def importable() -> None:
    """Let the node's zygotes find the probe: they import by the node's own path."""
    here = str(Path(__file__).parents[1])
    if here not in sys.path:
        sys.path.insert(0, here)
