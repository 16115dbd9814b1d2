"""How a workspace head changes by what people ask: names, and pins of forks. Pure; the caller writes by compare-and-set."""

from __future__ import annotations

from msgspec.structs import replace

from checkpointer.core.heads import is_root
from shared import limits
from shared.errors import Conflict, LimitExceeded, NotFound
from shared.snapshots import check_name
from shared.workspace import Base, Pin, Retained, SnapshotRef, WorkspaceHead


def pinned(head: WorkspaceHead, snapshot: SnapshotRef, fork: str) -> WorkspaceHead:
    """Return the head with a fork's pin on a snapshot that is retained; the same one where it has it.

    Pin and proof are one write: a collection expires snapshots by a write of the same head.

    Raises:
        NotFound: the snapshot is not retained any more.
        LimitExceeded: the session has too many forks.
    """
    pin = Pin(snapshot=snapshot.id, session=fork)
    if pin in head.pins:
        return head
    if head.deleted or not is_root(head, snapshot.id):
        raise NotFound(f"snapshot: {snapshot.id} is not kept any more")
    if len(head.pins) >= limits.FORKS_MAX:
        raise LimitExceeded(
            f"session {head.session}: {len(head.pins)} forks, at most {limits.FORKS_MAX} (FORKS_MAX)"
        )
    return replace(head, pins=(*head.pins, pin))


def labelled(head: WorkspaceHead, snapshot: str, name: str) -> WorkspaceHead:
    """Return the head with another name of a snapshot; empty: none.

    Raises:
        NotFound: the snapshot is not retained any more.
        Conflict: another snapshot has that name.
        InvalidMessage: no snapshot may have that name.
        LimitExceeded: too many have one.
    """
    check_name(name)
    if head.deleted or all(one.snapshot.id != snapshot for one in head.retained):
        raise NotFound(f"snapshot: {snapshot} is not kept any more")
    others = [one for one in head.retained if one.name and one.snapshot.id != snapshot]
    if name and any(one.name == name for one in others):
        raise Conflict(f"name: another snapshot of session {head.session} is named {name!r}")
    if name and len(others) >= limits.SNAPSHOTS_NAMED_MAX:
        raise LimitExceeded(
            f"session {head.session}: {len(others)} snapshots have a name, at most "
            f"{limits.SNAPSHOTS_NAMED_MAX} (SNAPSHOTS_NAMED_MAX)"
        )
    return replace(
        head,
        retained=tuple(
            replace(one, name=name) if one.snapshot.id == snapshot else one for one in head.retained
        ),
    )


def kept_for(head: WorkspaceHead, snapshot: SnapshotRef, *, epoch: int) -> WorkspaceHead:
    """Return the head with a snapshot made as safe as a new one: until the record names it, no collection takes it.

    Raises:
        NotFound: it is not retained any more.
    """
    if head.deleted or not is_root(head, snapshot.id):
        raise NotFound(f"snapshot: {snapshot.id} is not kept any more")
    entries = [one for one in head.retained if one.snapshot.id == snapshot.id]
    entry = entries[-1] if entries else Retained(snapshot=snapshot, epoch=epoch)  # a fork's base
    rest = tuple(one for one in head.retained if one.snapshot.id != snapshot.id)
    # As the newest: what was added before the newest head of the record can't become one any more, a new one can.
    return replace(head, retained=(*rest, replace(entry, epoch=max(entry.epoch, epoch))))


def of_fork(session: tuple[str, str, str], parent: str, snapshot: SnapshotRef) -> WorkspaceHead:
    """Return the first head of a fork.

    Args:
        session: its (tenant, pool, id).
        parent: whose snapshot it begins with.
        snapshot: which.
    """
    tenant, pool, name = session
    return WorkspaceHead(
        session=name,
        tenant=tenant,
        pool=pool,
        retained=(Retained(snapshot=snapshot, epoch=0),),
        base=Base(session=parent, snapshot=snapshot),
    )
