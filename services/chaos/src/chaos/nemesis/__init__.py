"""The faults, by name."""

from __future__ import annotations

from chaos.nemesis.base import Base
from chaos.nemesis.burst import NodesKilledInBurst
from chaos.nemesis.clocks import ClockJumps
from chaos.nemesis.hogs import ConnectionStorm, MemoryHog, ProcessorHogs
from chaos.nemesis.network import CutFromServers, CutToServers, Lossy, SlowStore
from chaos.nemesis.nodes import DoubleFault, NodesKilled, NodesStopped, NodesVanish
from chaos.nemesis.placed import KilledWhileRestoring, KilledWhileSaving
from chaos.nemesis.poison import PoisonTask
from chaos.nemesis.power import PowerLoss
from chaos.nemesis.room import NodeDiskFull, ServerDiskFull, StoreDiskFull
from chaos.nemesis.servers import (
    LeaderEnded,
    LeaderKilled,
    ServerDamaged,
    ServerTruncated,
    ServerWiped,
)
from chaos.nemesis.services import (
    CheckpointerKilled,
    CheckpointerStopped,
    PoolManagerKilled,
    PoolManagersKilled,
)
from chaos.nemesis.snapshots import SnapshotsDamaged

_ALL: tuple[type[Base], ...] = (
    NodesKilled, NodesVanish, LeaderKilled, LeaderEnded, NodesStopped, CutToServers, CutFromServers, Lossy, SlowStore,
    NodeDiskFull, ServerDiskFull, StoreDiskFull, ClockJumps, ServerWiped, PowerLoss, ServerDamaged, ServerTruncated,
    SnapshotsDamaged, DoubleFault, KilledWhileSaving, KilledWhileRestoring, PoolManagerKilled, PoolManagersKilled,
    CheckpointerKilled, CheckpointerStopped, PoisonTask, NodesKilledInBurst, ProcessorHogs, MemoryHog, ConnectionStorm,
)  # fmt: skip
FAULTS: dict[str, type[Base]] = {fault.name: fault for fault in _ALL}
"""What makes each: `FAULTS[name](site, dice)`. Its targets are drawn from the dice when it is injected."""
