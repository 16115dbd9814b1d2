"""Which server leads which stream. Spread over the servers, the loss of one stops a third of the shards, not all."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec

from shared import logs
from shared.bus.bus import Bus
from shared.errors import ServiceError
from shared.topology import Topology

log = logs.get(__name__)

POLL_S = 0.1
TRY_AGAIN_S = 0.5


class Led(msgspec.Struct, frozen=True):
    """Something that has a leader: a stream, or one of its consumers."""

    path: str
    """`<stream>`, or `<stream>.<consumer>`."""
    server: int
    """Index of the server that should lead it, counted in the order of the servers' names."""

    @property
    def kind(self) -> str:
        """The word that the API uses."""
        return "CONSUMER" if "." in self.path else "STREAM"


def all_led(topology: Topology) -> list[Led]:
    """Return every stream and consumer with the server that should lead it."""
    servers = {stream.name: stream.leader for stream in topology.streams}
    return [Led(name, server) for name, server in servers.items()] + [
        Led(f"{consumer.stream}.{consumer.name}", servers[consumer.stream])
        for consumer in topology.consumers
    ]


async def place(bus: Bus, topology: Topology, *, deadline_s: float = 30.0) -> list[str]:
    """Move leaders to where they belong, as far as all replicas are up to date.

    Returns:
        Paths of what does not lead where it should when the deadline has passed.
    """
    end = time.monotonic() + deadline_s
    left = all_led(topology)
    while True:
        results = await asyncio.gather(*(_move(bus, led) for led in left))
        left = [led for led, done in zip(left, results, strict=True) if not done]
        if not left or time.monotonic() >= end:
            return [led.path for led in left]
        await asyncio.sleep(TRY_AGAIN_S)


async def _move(bus: Bus, led: Led) -> bool:
    """Ask for one move where it is needed; return whether the leader is the right one."""
    try:
        state = (await bus.js_api(f"{led.kind}.INFO.{led.path}")).get("cluster") or {}
        wanted = wanted_leader(state, led.server)
        if wanted is None or state.get("leader") == wanted:
            return wanted is not None
        body = {"placement": {"preferred": wanted}}
        await bus.js_api(f"{led.kind}.LEADER.STEPDOWN.{led.path}", body)
        await asyncio.sleep(POLL_S)
        state = (await bus.js_api(f"{led.kind}.INFO.{led.path}")).get("cluster") or {}
    except ServiceError as exc:
        log.debug("leader.move_failed", what=led.path, error=str(exc))
        return False
    return bool(state.get("leader") == wanted)


def wanted_leader(state: dict[str, Any], server: int) -> str | None:
    """Return the name of the server that should lead; None: not now, a replica is behind or gone."""
    replicas = state.get("replicas") or []
    if not state.get("leader") or any(
        not replica.get("current") or replica.get("offline") for replica in replicas
    ):
        return None
    names = sorted([state["leader"], *(replica["name"] for replica in replicas)])
    return str(names[server]) if server < len(names) else None
