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
TRY_AGAIN_S = 0.2
INFO_S = 0.4


class Led(msgspec.Struct, frozen=True):
    """Something that has a leader: a stream, or one of its consumers."""

    path: str
    """`<stream>`, or `<stream>.<consumer>`."""
    server: int
    """Index of the server that should lead it, counted in the order of the servers' names."""


def kind_of(path: str) -> str:
    """Return the word that the API uses."""
    return "CONSUMER" if "." in path else "STREAM"


def all_led(topology: Topology) -> list[Led]:
    """Return every stream and consumer with the server that should lead it."""
    servers = {stream.name: stream.leader for stream in topology.streams}
    return [Led(name, server) for name, server in servers.items()] + [
        Led(f"{consumer.stream}.{consumer.name}", servers[consumer.stream])
        for consumer in topology.consumers
    ]


async def place(bus: Bus, topology: Topology, *, deadline_s: float = 30.0) -> list[str]:
    """Move leaders to where they belong, as far as the new leader is up to date.

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
        state = await state_of(bus, led)
        wanted = wanted_leader(state, led.server)
        if wanted is None or state.get("leader") == wanted:
            return wanted is not None
        await step_down(bus, led.path, wanted)
        await asyncio.sleep(POLL_S)
        state = await state_of(bus, led)
    except ServiceError as exc:
        log.debug("leader.move_failed", what=led.path, error=str(exc))
        return False
    return bool(state.get("leader") == wanted)


async def step_down(bus: Bus, path: str, wanted: str) -> None:
    """Ask a leader to hand over to a server.

    Raises:
        ServiceError: it did not say yes.
    """
    await bus.js_api(
        f"{kind_of(path)}.LEADER.STEPDOWN.{path}", {"placement": {"preferred": wanted}}
    )


async def state_of(bus: Bus, led: Led) -> dict[str, Any]:
    """Return the servers' words on leader and replicas.

    Raises:
        ServiceError: no answer.
    """
    # A server that is just giving up its lead answers nothing: better ask again soon.
    info = await bus.js_api(f"{kind_of(led.path)}.INFO.{led.path}", timeout_s=INFO_S)
    return info.get("cluster") or {}


def wanted_leader(state: dict[str, Any], server: int) -> str | None:
    """Return the name of the server that should lead; None: not now, it is behind, or a replica is gone.

    "Up to date" is judged by its lag: the servers' own `current` turns true only with the next heartbeat.
    """
    replicas = state.get("replicas") or []
    if not state.get("leader") or any(replica.get("offline") for replica in replicas):
        return None
    lags = {replica["name"]: replica.get("lag", 0) for replica in replicas}
    names = sorted([state["leader"], *lags])
    if server >= len(names) or lags.get(names[server], 0):
        return None
    return str(names[server])
