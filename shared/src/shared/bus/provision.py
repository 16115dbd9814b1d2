"""Creating, or verifying, what the topology declares. Safe to run from several places at once, and again."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from shared import logs
from shared.bus import leaders
from shared.bus.bus import Bus
from shared.bus.drift import Drift, find_drift
from shared.errors import NotFound, OutcomeUnknown, Rejected, Unavailable
from shared.topology import ConsumerSpec, StreamSpec, Topology

log = logs.get(__name__)

AT_ONCE = 8
"""Requests to the cluster's leader at once."""
ATTEMPT_S = 5.0
_T = TypeVar("_T")


async def provision(
    bus: Bus,
    topology: Topology,
    *,
    update: bool = False,
    place_leaders: bool = False,
    deadline_s: float = 60.0,
) -> list[Drift]:
    """Create every stream and consumer that misses; compare those that exist.

    Args:
        bus: a connection that may manage streams.
        topology: what must exist.
        update: change what differs (a declared pool more, a new limit) instead of only naming it.
        place_leaders: move leaders so that each stream and its consumers lead on the declared server.
        deadline_s: seconds for everything.

    Returns:
        What differs from the declaration now, field by field.

    Raises:
        Rejected: the cluster refuses a declaration.
        Unavailable: not done within the deadline; run it again.
    """
    end = time.monotonic() + deadline_s
    drift = await _each(topology.streams, lambda spec: _stream(bus, spec, update, end))
    drift += await _each(topology.consumers, lambda spec: _consumer(bus, spec, update, end))
    if place_leaders:
        await leaders.place(bus, topology, deadline_s=max(end - time.monotonic(), 1.0))
    for difference in drift:
        log.warning("topology.drift_found", drift=str(difference))
    return drift


async def _each(specs: tuple[_T, ...], work: Callable[[_T], Awaitable[list[Drift]]]) -> list[Drift]:
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(spec: _T) -> list[Drift]:
        async with gate:
            return await work(spec)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(spec)) for spec in specs]
    except ExceptionGroup as exc:
        raise exc.exceptions[0] from exc
    return [difference for task in tasks for difference in task.result()]


async def _stream(bus: Bus, spec: StreamSpec, update: bool, end: float) -> list[Drift]:
    found = await _ensure(
        bus, f"STREAM.INFO.{spec.name}", f"STREAM.CREATE.{spec.name}", spec.config, end
    )
    drift = find_drift("stream", spec.name, spec.config, found)
    if drift and update:
        # On top of what is there: fields that we do not know stay.
        wanted = {**found, **spec.config, "first_seq": found.get("first_seq", 0)}
        found = await _config(bus, f"STREAM.UPDATE.{spec.name}", wanted, end)
        drift = find_drift("stream", spec.name, spec.config, found)
    return drift


async def _consumer(bus: Bus, spec: ConsumerSpec, update: bool, end: float) -> list[Drift]:
    create = f"CONSUMER.CREATE.{spec.stream}.{spec.name}.{spec.config['filter_subject']}"
    body = {"stream_name": spec.stream, "config": spec.config, "action": "create"}
    name = f"{spec.stream}/{spec.name}"
    found = await _ensure(bus, f"CONSUMER.INFO.{spec.stream}.{spec.name}", create, body, end)
    drift = find_drift("consumer", name, spec.config, found)
    if drift and update:
        wanted = {**body, "config": {**found, **spec.config}, "action": "update"}
        found = await _config(bus, create, wanted, end)
        drift = find_drift("consumer", name, spec.config, found)
    return drift


async def _ensure(
    bus: Bus, info: str, create: str, body: dict[str, Any], end: float
) -> dict[str, Any]:
    """Return the configuration that exists; create it first where there is none."""
    try:
        return await _config(bus, info, None, end)
    except NotFound:
        pass
    try:
        found = await _config(bus, create, body, end)
    except Rejected as exc:
        # Somebody else made it just now, perhaps a little differently: then it is there to be compared.
        try:
            return await _config(bus, info, None, end)
        except NotFound:
            raise exc from None
    log.info("topology.created", what=create)
    return found


async def _config(bus: Bus, suffix: str, body: dict[str, Any] | None, end: float) -> dict[str, Any]:
    """Ask until there is an answer: a cluster that elects its leader gives none. Asking twice does no harm here."""
    while True:
        try:
            left_s = max(end - time.monotonic(), 0.05)
            answer = await bus.js_api(suffix, body, timeout_s=min(ATTEMPT_S, left_s))
        except (OutcomeUnknown, Unavailable) as exc:
            if time.monotonic() >= end:
                raise Unavailable(f"{suffix}: {exc}") from exc
            await asyncio.sleep(random.uniform(0.1, 0.3))
        else:
            config: dict[str, Any] = answer["config"]
            return config
