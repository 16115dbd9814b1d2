"""Which snapshots of a session stay. Pure."""

from __future__ import annotations

import msgspec

from checkpointer.core.roots import Roots
from shared.workspace import Retained, WorkspaceHead

HOUR_MS = 3_600_000


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """How many stay, beside those that are named, pinned, or a head of the record."""

    last: int = 10
    """Newest tasks whose last snapshot stays."""
    hours: int = 24
    """So many hours back, the newest snapshot of each hour stays."""


DEFAULT = Retention()


def kept(
    head: WorkspaceHead, roots: Roots, now_ms: int, policy: Retention = DEFAULT
) -> tuple[Retained, ...]:
    """Return the retained snapshots that stay, oldest first.

    Args:
        head: what is retained; of an ended session only what forks pin stays.
        roots: what the record said *before* the head was read.
        now_ms: wall clock, milliseconds since 1970.
        policy: how many stay.
    """
    stay = {pin.snapshot for pin in head.pins}
    if roots.ended or head.deleted:
        return tuple(entry for entry in head.retained if entry.snapshot.id in stay)
    stay |= roots.ids
    stay |= {entry.snapshot.id for entry in head.retained if entry.name}
    stay |= _uncommitted(head, roots)
    candidates = _of_each_task(_without_zombies(head.retained, stay))
    stay |= {entry.snapshot.id for entry in candidates[max(0, len(candidates) - policy.last) :]}
    hours = {
        entry.snapshot.at_ms // HOUR_MS: entry.snapshot.id
        for entry in candidates
        if entry.snapshot.at_ms > now_ms - policy.hours * HOUR_MS
    }
    stay |= set(hours.values())
    return tuple(entry for entry in head.retained if entry.snapshot.id in stay)


def _uncommitted(head: WorkspaceHead, roots: Roots) -> set[str]:
    """Return what an owner that still may commit has added since the newest head: one of these may become a head."""
    committed = [at for at, entry in enumerate(head.retained) if entry.snapshot.id in roots.ids]
    after = committed[-1] + 1 if committed else 0
    return {entry.snapshot.id for entry in head.retained[after:] if entry.epoch >= roots.epoch}


def _without_zombies(retained: tuple[Retained, ...], stay: set[str]) -> list[Retained]:
    """Leave out what a former owner added after its successor had: nobody ever built on it, unless it is to stay.

    What stays is judged alike before and after those around it are gone: the second look takes nothing more.
    """
    newest, found = 0, []
    for entry in retained:
        if entry.epoch >= newest or entry.snapshot.id in stay:
            newest = max(newest, entry.epoch)
            found.append(entry)
    return found


def _of_each_task(retained: list[Retained]) -> list[Retained]:
    """Leave the last one of each task: those before it were taken in its middle. Without a task each counts."""
    last = {entry.task: at for at, entry in enumerate(retained)}
    return [entry for at, entry in enumerate(retained) if not entry.task or last[entry.task] == at]
