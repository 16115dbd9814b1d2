"""Joins what answers questions about snapshots: a part of `app`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pool_manager.adapters.workspaces import BusKeepers, StreamHeads
from pool_manager.core.world import World
from pool_manager.loops.fork import Forker
from pool_manager.loops.snapshots import SnapshotDesk
from pool_manager.ports import Truth
from pool_manager.settings import PoolSettings
from shared.bus import Bus


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
