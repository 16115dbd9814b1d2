"""What the services of an embedded cluster hold: memory, open files, and the servers' stores on disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from agent_sandbox.embedded.companions import companions
from agent_sandbox.embedded.table import Kind, Row
from chaos.adapters.cluster import Embedded
from chaos.core.rows import Held
from shared.errors import Unavailable

KINDS: tuple[Kind, ...] = ("server", "edge", "manager", "gateway", "node")
PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024


def read_held(cluster: Embedded) -> dict[str, Held]:
    """Return what each service holds, by its name; one that is just ending is left out."""
    found = {}
    for row in _rows(cluster):
        if row.process is None:
            continue
        try:
            held = held_by(row.process.pid)
        except OSError:
            continue
        disk_kib = size_kib(cluster.folder.servers / row.name) if row.kind == "server" else 0
        found[row.name] = Held(
            kind=row.kind,
            pid=row.process.pid,
            memory_kib=held[0],
            files=held[1],
            disk_kib=disk_kib,
        )
    return found


def _rows(cluster: Embedded) -> Iterator[Row]:
    try:
        for kind in KINDS:
            rows = cluster.rows(kind)
            yield from rows
            if kind == "node":
                yield from companions(rows)
    except Unavailable:
        return


def held_by(pid: int) -> tuple[int, int]:
    """Return a process's memory (resident, KiB) and its open files.

    Raises:
        OSError: it is gone.
    """
    process = Path("/proc") / str(pid)
    resident = int((process / "statm").read_text().split()[1])
    return resident * PAGE_KIB, sum(1 for _ in (process / "fd").iterdir())


def size_kib(folder: Path) -> int:
    """Return what lies in a folder, as the disk has it."""
    found = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                found += (Path(place) / name).lstat().st_blocks // 2
            except OSError:  # it was just removed
                continue
    return found
