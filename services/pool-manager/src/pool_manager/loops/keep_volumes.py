"""Sees to the volumes of pools that have one: the claim, the keepers, and what is to be said where something misses."""

from __future__ import annotations

import asyncio
import time

from pool_manager.core.kube_cluster import Cluster
from pool_manager.core.volume_state import LOOK_S, judge, next_look_s
from pool_manager.core.world import World
from pool_manager.ports.volumes import Volumes
from shared import logs
from shared.errors import ServiceError

log = logs.get(__name__)

DISMISS_S = 600.0
"""Keepers of a pool that is not declared: perhaps it is, and this pool-manager is about to be replaced by one that knows."""


class VolumeKeeping:
    """One pool-manager's part of it: all of them look, one acts."""

    def __init__(self, world: World, cluster: Cluster, volumes: Volumes) -> None:
        """Tell `cluster` what is wrong with whose volume."""
        self._world = world
        self._cluster = cluster
        self._volumes = volumes
        self._strange: dict[str, float] = {}
        """Pools that are not declared here and have keepers, since when."""

    async def run(self) -> None:
        """Look until cancelled."""
        wait_s = LOOK_S
        while True:
            before = dict(self._cluster.volumes)
            try:
                await self._look()
            except ServiceError as exc:
                log.warning("volumes.not_looked_at", code=exc.code, error=str(exc))
            wait_s = next_look_s(wait_s, before, self._cluster.volumes)
            await asyncio.sleep(wait_s)

    async def _look(self) -> None:
        claims, keepers = await self._volumes.claims(), await self._volumes.keepers()
        template = self._cluster.template
        acts = self._world.peers.is_first("volumes", time.monotonic())
        pools = {p: s.spec for p, s in self._world.pools.items() if s.spec.on_volume}
        for name, pool in pools.items():
            verdict = judge(template, pool, claims.get(name), keepers.get(name))
            self._say(name, verdict.problem)
            for act in verdict.acts if acts else ():
                log.info("volume.seen_to", pool=name, act=act)
                try:
                    if act == "create claim":
                        await self._volumes.claim(pool)
                    else:
                        await self._volumes.keep(pool, keepers.get(name))
                except ServiceError as exc:
                    self._say(name, f"its volume: {exc}")
        now = time.monotonic()
        strange = keepers.keys() - pools.keys()
        self._strange = {name: self._strange.get(name, now) for name in strange}
        for name in strange if acts else ():
            if now - self._strange[name] > DISMISS_S:
                log.info("keepers.dismissed", pool=name)
                await self._volumes.dismiss(keepers[name])

    def _say(self, pool: str, problem: str) -> None:
        if problem:
            self._cluster.volumes[pool] = problem
        else:
            self._cluster.volumes.pop(pool, None)
