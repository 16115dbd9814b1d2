"""Killing and stopping servers of the private cluster."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass

from harness.cluster import Private
from harness.running import CannotMeasure, say

from agent_sandbox.embedded.procs import ProcessId
from agent_sandbox.embedded.table import read_table
from shared.bus import leaders
from shared.errors import ServiceError
from shared.pools import PoolSpec
from shared.topology import topology

PLACE_S = 60.0
STEADY_S = 3.0
"""After all is in place again: so long the load runs undisturbed before the next fault."""


@dataclass
class Fault:
    """One fault. Seconds since 1970."""

    kind: str
    """`kill` or `hang`."""
    server: str
    at_s: float
    until_s: float
    """End of the time that is looked at."""


async def whole(cluster: Private, pools: Sequence[PoolSpec]) -> None:
    """Wait until each shard is led by its own server again.

    Raises:
        CannotMeasure: not within a minute.
    """
    wanted = topology(pools, created_ms=0)
    left = ["all"]
    end = time.monotonic() + PLACE_S
    while left and time.monotonic() < end:
        try:
            left = await leaders.place(cluster.admin, wanted, deadline_s=10)
        except ServiceError as exc:
            say(f"leaders: {exc}")
    if left:
        raise CannotMeasure(f"leaders are not where they belong: {', '.join(left)}")
    await asyncio.sleep(STEADY_S)


def _process_of(cluster: Private, server: str) -> ProcessId:
    table = read_table(cluster.folder)
    for row in table.rows if table else ():
        if row.name == server and row.process is not None:
            return row.process
    raise CannotMeasure(f"{server} does not run")


async def kill(cluster: Private, server: str, watch_s: float) -> Fault:
    """Kill a server; the supervisor starts it again."""
    process, at_s = _process_of(cluster, server), time.time()
    process.send(signal.SIGKILL)
    say(f"{server} killed")
    await asyncio.sleep(watch_s)
    return Fault("kill", server, at_s, time.time())


async def hang(cluster: Private, server: str, hang_s: float, watch_s: float) -> Fault:
    """Stop a server's execution for a while; its connections stay open.

    The supervisor ends a server that hangs for about ten seconds, and starts it again.
    """
    process, at_s = _process_of(cluster, server), time.time()
    process.send(signal.SIGSTOP)
    try:
        say(f"{server} stopped for {hang_s:g} s")
        await asyncio.sleep(hang_s)
    finally:
        process.send(signal.SIGCONT)
    await asyncio.sleep(max(0.0, watch_s - hang_s))
    return Fault("hang", server, at_s, time.time())
