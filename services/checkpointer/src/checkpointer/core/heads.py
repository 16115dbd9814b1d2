"""What may become of a workspace head: each change is the whole of one compare-and-set. Pure.

Nobody deletes a pack before a write of the head that makes it garbage, and nobody who builds on a snapshot is done before
a write of the head under which that was still a root.
"""

from __future__ import annotations

from msgspec.structs import replace

from checkpointer.core.retention import DEFAULT, Retention, kept
from checkpointer.core.roots import Roots
from shared.errors import StaleEpoch
from shared.workspace import Retained, SnapshotRef, WorkspaceHead

RETAINED_MAX = 128
"""Snapshots that a head lists. Above: those that the retention lets go, go with the write that adds another."""


def root(head: WorkspaceHead, snapshot: str) -> SnapshotRef | None:
    """Return a snapshot whose packs stay at least until the next write of this head; None: it is none.

    As the head names it: whoever asks may name another pack under its id.
    """
    known = [entry.snapshot for entry in head.retained]
    known += [head.base.snapshot] if head.base is not None else []
    return next((ref for ref in known if ref.id == snapshot), None)


def is_root(head: WorkspaceHead, snapshot: str) -> bool:
    """Return whether a snapshot's packs stay at least until the next write of this head."""
    return root(head, snapshot) is not None


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


def unpinned(head: WorkspaceHead, fork: str) -> WorkspaceHead:
    """Return the head without a fork's pins; what only they kept goes with the next collection."""
    return replace(head, pins=tuple(pin for pin in head.pins if pin.session != fork))


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
