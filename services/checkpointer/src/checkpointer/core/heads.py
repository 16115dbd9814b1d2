"""What may become of a workspace head: each change is the whole of one compare-and-set. Pure.

Nobody deletes a pack before a write of the head that makes it garbage, and nobody who builds on a snapshot is done before
a write of the head under which that was still a root.
"""

from __future__ import annotations

from msgspec.structs import replace

from checkpointer.core.retention import DEFAULT, Retention, kept
from checkpointer.core.roots import Roots
from shared.errors import InvalidMessage, LimitExceeded, NotFound, StaleEpoch
from shared.workspace import Base, Pin, Retained, SnapshotRef, WorkspaceHead

RETAINED_MAX = 128
"""Snapshots that a head lists. Above: those that the retention lets go, go with the write that adds another."""
NAMED_MAX = 32
"""Snapshots of one session that have names. Above: another name is refused."""
PINS_MAX = 256
"""Forks of one session that live. Above: another fork is refused."""


def find(head: WorkspaceHead, snapshot: str) -> Retained | None:
    """Return the newest entry of a snapshot; None: it is not retained."""
    found = [entry for entry in head.retained if entry.snapshot.id == snapshot]
    return found[-1] if found else None


def is_root(head: WorkspaceHead, snapshot: str) -> bool:
    """Return whether a snapshot's packs stay at least until the next write of this head."""
    base = head.base
    return find(head, snapshot) is not None or (base is not None and base.snapshot.id == snapshot)


def added(head: WorkspaceHead, entry: Retained, roots: Roots, now_ms: int) -> WorkspaceHead:
    """Return the head with one more snapshot.

    Raises:
        StaleEpoch: the session has ended.
    """
    if head.deleted or roots.ended:
        raise StaleEpoch(f"session {head.session} has ended: its workspace is not saved any more")
    grown = replace(head, retained=(*head.retained, entry))
    if len(grown.retained) > RETAINED_MAX:
        stay = kept(grown, roots, now_ms)
        grown = replace(grown, retained=stay if entry in stay else (*stay, entry))
    return grown


def held(
    head: WorkspaceHead, snapshot: str, *, epoch: int, task: str
) -> tuple[WorkspaceHead, SnapshotRef]:
    """Return the head with a retained snapshot as its newest, for who goes back to it.

    Raises:
        NotFound: it is not retained.
    """
    entry = _retained(head, snapshot)
    again = replace(entry, epoch=epoch, task=task, name="")
    rest = tuple(one for one in head.retained if one != entry or one.name)
    return replace(head, retained=(*rest, again)), entry.snapshot


def pinned(head: WorkspaceHead, snapshot: str, fork: str) -> tuple[WorkspaceHead, Base]:
    """Return the head with a fork's pin, and where the fork comes from; pinning again changes nothing.

    Raises:
        NotFound: the snapshot is not retained.
        LimitExceeded: too many forks live.
    """
    entry = _retained(head, snapshot)
    base = Base(session=head.session, snapshot=entry.snapshot)
    pin = Pin(snapshot=snapshot, session=fork)
    if pin in head.pins:
        return head, base
    if len(head.pins) >= PINS_MAX:
        raise LimitExceeded(f"session {head.session}: more than {PINS_MAX} forks live")
    return replace(head, pins=(*head.pins, pin)), base


def unpinned(head: WorkspaceHead, fork: str) -> WorkspaceHead:
    """Return the head without a fork's pins; what only they kept goes with the next collection."""
    return replace(head, pins=tuple(pin for pin in head.pins if pin.session != fork))


def named(head: WorkspaceHead, snapshot: str, name: str) -> WorkspaceHead:
    """Return the head with a name for a snapshot (empty: with none); a name stands for one snapshot only.

    Raises:
        NotFound: the snapshot is not retained.
        InvalidMessage: the name stands for another.
        LimitExceeded: too many have names.
    """
    entry = _retained(head, snapshot)
    taken = {one.name: one.snapshot.id for one in head.retained if one.name}
    if name and taken.get(name, snapshot) != snapshot:
        raise InvalidMessage(f"session {head.session}: another snapshot is called {name!r}")
    if name and name not in taken and len(taken) >= NAMED_MAX:
        raise LimitExceeded(f"session {head.session}: more than {NAMED_MAX} snapshots have names")
    renamed = tuple(replace(one, name=name) if one == entry else one for one in head.retained)
    return replace(head, retained=renamed)


def expired(
    head: WorkspaceHead, roots: Roots, now_ms: int, policy: Retention = DEFAULT
) -> WorkspaceHead:
    """Return the head without what the retention lets go; its write fences all who read it before.

    Args:
        head: as it is.
        roots: what the record said before the head was read.
        now_ms: wall clock, milliseconds since 1970.
        policy: what stays.
    """
    return replace(
        head,
        retained=kept(head, roots, now_ms, policy),
        gc_seq=head.gc_seq + 1,
        deleted=head.deleted or roots.ended,
    )


def live_snapshots(head: WorkspaceHead, roots: Roots) -> tuple[SnapshotRef, ...]:
    """Return all whose packs must stay, each once."""
    refs = [entry.snapshot for entry in head.retained]
    refs += [] if head.deleted else roots.heads
    if head.base is not None and not head.deleted:
        refs.append(head.base.snapshot)
    return tuple({ref.id: ref for ref in refs}.values())


def _retained(head: WorkspaceHead, snapshot: str) -> Retained:
    entry = find(head, snapshot)
    if entry is None or head.deleted:
        raise NotFound(f"session {head.session} has no snapshot {snapshot} any more")
    return entry
