"""Which snapshots a session has, and which one is meant: by its record and its workspace head. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from shared.errors import InvalidMessage, NotFound
from shared.record import ENDED, Record
from shared.snapshots import PREFIX_LENGTH_MIN, SnapshotRow
from shared.workspace import Retained, WorkspaceHead


def kept(record: Record, head: WorkspaceHead | None) -> list[Retained]:
    """Return a session's snapshots, oldest first: what its head retains, and what its record names.

    Of one that has ended only what forks began with stays, with the last of them.
    """
    found: dict[str, Retained] = {}
    if record.state in ENDED:
        pinned = {pin.snapshot for pin in head.pins} if head is not None else set()
        of_forks = [one for one in head.retained if one.snapshot.id in pinned] if head else []
        return list({one.snapshot.id: one for one in of_forks}.values())
    for one in (
        head.retained if head is not None else ()
    ):  # one that was gone back to is there twice
        found.setdefault(one.snapshot.id, one)
    named = [
        Retained(snapshot=record.base.snapshot, epoch=0) if record.base else None,
        Retained(snapshot=record.boundary, epoch=record.epoch) if record.boundary else None,
        Retained(
            snapshot=record.latest.snapshot, epoch=record.latest.epoch, task=record.latest.task
        )
        if record.latest
        else None,
    ]
    for extra in named:
        if extra is not None:
            found.setdefault(extra.snapshot.id, extra)
    return sorted(found.values(), key=lambda one: (one.snapshot.at_ms, one.snapshot.lineage))


def find(record: Record, head: WorkspaceHead | None, wanted: str | None) -> Retained:
    """Return the snapshot that somebody means: by name, by id, or by the beginning of its id.

    Args:
        record: the session's.
        head: its workspace head; None: it has none.
        wanted: None: what its last completed task left behind, else the newest there is.

    Raises:
        NotFound: the session has no such snapshot (any more).
        InvalidMessage: several ids begin so.
    """
    known = kept(record, head)
    if record.state in ENDED and not known:
        raise NotFound(f"session {record.session} has ended ({record.state}): its files are gone")
    if wanted is None and record.state not in ENDED:
        newest = record.boundary or (record.latest.snapshot if record.latest else None)
        if newest is None:
            raise NotFound(f"session {record.session} has no snapshot yet: nothing was ever saved")
        return next(one for one in known if one.snapshot.id == newest.id)
    if wanted is None:
        return known[-1]
    for one in known:
        if wanted in (one.name, one.snapshot.id):
            return one
    meant = [one for one in known if one.snapshot.id.startswith(wanted)]
    if len(wanted) >= PREFIX_LENGTH_MIN and len(meant) == 1:
        return meant[0]
    if len(wanted) >= PREFIX_LENGTH_MIN and meant:
        raise InvalidMessage(
            f"snapshot: {len(meant)} of session {record.session} begin with {wanted[:64]}"
        )
    raise NotFound(
        f"snapshot: session {record.session} has none of that name or id (any more): {wanted[:64]}"
    )


def rows(record: Record, head: WorkspaceHead | None) -> Iterator[SnapshotRow]:
    """Yield a session's snapshots as they are shown, newest first."""
    for one in reversed(kept(record, head)):
        yield row(one, record, head)


def row(one: Retained, record: Record, head: WorkspaceHead | None) -> SnapshotRow:
    """Return one snapshot as it is shown."""
    ref = one.snapshot
    which: Literal["boundary", "latest", "base"] | None = None
    if record.state in ENDED:
        which = None  # it goes on from nothing any more
    elif record.boundary is not None and ref.id == record.boundary.id:
        which = "boundary"
    elif record.latest is not None and ref.id == record.latest.snapshot.id:
        which = "latest"
    elif record.base is not None and ref.id == record.base.snapshot.id:
        which = "base"
    pins = head.pins if head is not None else ()
    return SnapshotRow(
        id=ref.id,
        at_ms=ref.at_ms,
        bytes=ref.bytes,
        entries=ref.entries,
        task=one.task,
        name=one.name,
        forks=sum(pin.snapshot == ref.id for pin in pins),
        head=which,
    )
