"""How what the services hold grows with time: slopes, by kind of service."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from chaos.core.history import History
from chaos.core.rows import Usage

SETTLED_SHARE = 0.25
"""Of a run: what is built up at its beginning is no growth."""
MIB_KIB = 1024.0
Point = tuple[float, float]


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of service, all of its processes together."""

    kind: str
    processes: int
    memory_mib: float
    """At the end."""
    memory_mib_per_h: float
    files: float
    """Open, at the end."""
    files_per_h: float
    disk_mib: float
    disk_mib_per_h: float


def growth_of(history: History) -> tuple[Growth, ...]:
    """Return how each kind of service grows, in a run without faults; nothing where nobody looked.

    A kind of which not all looks found the same processes is left out: one that is new, or was not seen, makes a slope of its own.
    """
    settled_s = SETTLED_SHARE * history.end_s
    looks = [look for look in history.usages if look.time >= settled_s]
    if len(looks) < 2 or any(row.type == "inject" for row in history.nemesis):
        return ()
    found = []
    for kind in dict.fromkeys(held.kind for held in looks[-1].services.values()):
        if len({_processes(look, kind) for look in looks}) > 1:
            continue
        memory, files, disk = ([], [], [])  # type: tuple[list[Point], list[Point], list[Point]]
        for look in looks:
            of_kind = [held for held in look.services.values() if held.kind == kind]
            memory.append((look.time, sum(held.memory_kib for held in of_kind) / MIB_KIB))
            files.append((look.time, float(sum(held.files for held in of_kind))))
            disk.append((look.time, sum(held.disk_kib for held in of_kind) / MIB_KIB))
        found.append(
            Growth(
                kind=kind,
                processes=sum(held.kind == kind for held in looks[-1].services.values()),
                memory_mib=memory[-1][1],
                memory_mib_per_h=slope(memory) * 3600,
                files=files[-1][1],
                files_per_h=slope(files) * 3600,
                disk_mib=disk[-1][1],
                disk_mib_per_h=slope(disk) * 3600,
            )
        )
    return tuple(found)


def _processes(look: Usage, kind: str) -> frozenset[tuple[str, int]]:
    return frozenset((name, held.pid) for name, held in look.services.items() if held.kind == kind)


def slope(points: Sequence[Point]) -> float:
    """Return the slope of the line through points with the least squares; 0 where they stand at one moment."""
    count = len(points)
    mean_x = sum(x for x, _ in points) / count
    mean_y = sum(y for _, y in points) / count
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0
