"""What the kernel leaves this process: memory and processes, by the machine and by the control groups around it."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")


def memory_available_bytes() -> int:
    """Return how much memory can still be taken: the machine's, or less where a control group bounds it."""
    found = [_meminfo("MemAvailable")]
    for folder in _groups("memory"):
        bound = _number(folder / "memory.max") or _number(folder / "memory.limit_in_bytes")
        used = _number(folder / "memory.current") or _number(folder / "memory.usage_in_bytes") or 0
        if bound is not None:
            found.append(max(0, bound - used + _cache(folder)))
    return min(found)


def processes_max() -> int | None:
    """Return how many processes and threads there may be; None: no bound."""
    found = [
        bound for folder in _groups("pids") if (bound := _number(folder / "pids.max")) is not None
    ]
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if soft != resource.RLIM_INFINITY and os.geteuid() != 0:  # it does not bind root
        found.append(soft)
    return min(found, default=None)


def _groups(controller: str) -> Iterator[Path]:
    """Yield this process's group and those above it, in the hierarchy of a controller."""
    for line in _lines(Path("/proc/self/cgroup")):
        _, names, path = line.split(":", 2)
        if names and controller not in names.split(","):
            continue
        root = GROUPS / controller if names else GROUPS
        own = root / path.lstrip("/")
        yield from (each for each in (own, *own.parents) if each.is_relative_to(root))


def _cache(folder: Path) -> int:
    """Return the bytes of a group that are files, which the kernel gives back when asked."""
    for line in _lines(folder / "memory.stat"):
        name, _, value = line.partition(" ")
        if name in ("inactive_file", "total_inactive_file"):
            return int(value)
    return 0


def _meminfo(name: str) -> int:
    for line in _lines(Path("/proc/meminfo")):
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024
    return 0


def _number(path: Path) -> int | None:
    """Return a file's number; None: there is none, or it says `max`."""
    text = "".join(_lines(path)).strip()
    return int(text) if text.isdigit() and int(text) < 1 << 62 else None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
