"""Holds tenants to their share of the object store."""

from __future__ import annotations

import asyncio
import time

from pool_manager.core.quota import has_too_much, to_drop
from pool_manager.core.world import World
from pool_manager.ports.objects import Objects
from shared import logs
from shared.errors import ServiceError

log = logs.get(__name__)

EVERY_S = 10.0


class ObjectKeeper:
    """One of all pool-managers does it, by turn."""

    def __init__(self, world: World, objects: Objects, tenant_bytes_max: int) -> None:
        """Let each tenant have `tenant_bytes_max` bytes of objects; `world` tells whose turn it is."""
        self._world = world
        self._objects = objects
        self._tenant_bytes_max = tenant_bytes_max

    async def run(self) -> None:
        """Look every ten seconds, until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            if not self._world.peers.is_first("objects", time.monotonic()):
                continue
            try:
                await self.hold()
            except ServiceError as exc:
                log.debug("objects.not_held", code=exc.code, error=str(exc))

    async def hold(self) -> None:
        """Remove the oldest objects of each tenant that has more than its share.

        Raises:
            ServiceError: a stream did not answer.
        """
        if await self._objects.stored_bytes() <= self._tenant_bytes_max:
            return  # so nobody has more than that
        found = has_too_much(await self._objects.look(), self._tenant_bytes_max)
        ages = {one: await self._objects.since(one) for one in found}
        for one in to_drop(ages, self._tenant_bytes_max):
            await self._objects.drop(one.tenant, one.object_id)
            log.warning("object.dropped", tenant=one.tenant, object=one.object_id, reason="limit")
