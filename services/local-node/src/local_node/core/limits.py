"""From a pod's limits to what the kernel is told, and what is left for the sidecar to watch. Pure."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from shared.pools import PodLimits

_MIB = 1 << 20
_NOFILE = 1024
_MEMLOCK_BYTES = 64 << 10
_SHARED_USER_SPARE = 2048
_NICENESS_WITHOUT_CPU_GROUP = 5
"""Keeps a busy sandbox behind the services where no control group weighs it."""


class Bounds(msgspec.Struct, frozen=True):
    """How a sandbox's limits are kept."""

    rlimits: dict[str, int]
    """Name -> value, set on its first process and inherited."""
    niceness: int
    enforced: tuple[str, ...]
    """Limits that the kernel holds for all its processes together."""
    watched: tuple[str, ...]
    """Limits that the sidecar must measure, ending the pod past them."""


def bounds(limits: PodLimits, controllers: Collection[str], user_processes: int | None) -> Bounds:
    """Return how to keep `limits`.

    Args:
        limits: as the pool declares them.
        controllers: cgroup controllers that the pod has: of memory, pids, cpu.
        user_processes: processes and threads that the kernel counts together with the sandbox's, because they have
            the same user; None: there are no others, as it has a uid or a user namespace of its own.
    """
    rlimits = {
        "core": 0,
        "fsize": limits.disk_mib * _MIB,  # one file; their sum is watched
        "memlock": _MEMLOCK_BYTES,
        "nofile": _NOFILE,
    }
    enforced = [name for name in ("memory", "pids", "cpu") if name in controllers]
    if user_processes is None:
        rlimits["nproc"] = limits.pids
        if "pids" not in enforced:
            enforced.append("pids")
    else:
        rlimits["nproc"] = user_processes + _SHARED_USER_SPARE  # bounds a fork bomb, not the pod
    if "memory" not in enforced:
        rlimits["data"] = limits.memory_mib * _MIB  # one process; their sum is watched
    watched = [name for name in ("memory", "pids", "disk") if name not in enforced]
    niceness = 0 if "cpu" in enforced else _NICENESS_WITHOUT_CPU_GROUP
    return Bounds(rlimits, niceness, tuple(enforced), tuple(watched))
