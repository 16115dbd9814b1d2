"""Joins what mints workers, and what answers questions about snapshots: a part of `app`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pool_manager.adapters.mint import SpecMint
from pool_manager.adapters.workspaces import BusKeepers, StreamHeads
from pool_manager.core.world import World
from pool_manager.loops.fork import Forker
from pool_manager.loops.snapshots import SnapshotDesk
from pool_manager.ports import Truth
from pool_manager.settings import PoolSettings, of_workers
from shared.bus import Bus
from shared.identity import WorkerSigner
from shared.pools import PoolSpec
from shared.traces.context import Sampling


def make_snapshot_desk(
    world: World, bus: Bus, truth: Truth, at: Callable[[str, Any], Any], settings: PoolSettings
) -> SnapshotDesk:
    """Return the desk of one pool-manager.

    Args:
        world: what the manager knows.
        bus: its connection.
        truth: records and results.
        at: places faults into an adapter that a loop uses.
        settings: of this manager.
    """
    heads, keepers = StreamHeads(bus), BusKeepers(bus)
    forker = Forker(
        world,
        at("fork", truth),
        at("fork", heads),
        at("fork", keepers),
        sessions_max=settings.tenant_sessions_max,
    )
    return SnapshotDesk(
        at("snapshots", truth), at("snapshots", heads), at("snapshots", keepers), forker
    )


def make_mint(
    settings: PoolSettings,
    declared: tuple[tuple[PoolSpec, ...], WorkerSigner],
    servers: tuple[str, ...],
    sampling: Sampling | None,
) -> SpecMint:
    """Return what makes the specs of pods complete.

    Args:
        settings: of this manager.
        declared: the pools, and the key of their workers.
        servers: as pods reach them.
        sampling: of traces.
    """
    pools, signer = declared
    return SpecMint(
        signer,
        pools,
        servers,
        valid_s=settings.worker_valid_s,
        common=of_workers(settings, sampling),
    )
