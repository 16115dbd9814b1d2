"""The publishing of a snapshot: its packs are stored, then one compare-and-set on the workspace head retains it.

What a snapshot shares with its parent is safe as long as the parent is a root of the head that the write replaces. A write
that loses says that the head has changed since: perhaps a collector has run, to whom the packs just stored are garbage.
So all is looked at again, and uploaded again under new names.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from checkpointer.core import heads as core
from checkpointer.core.roots import Roots, roots_of
from checkpointer.ports.collecting import Heads, Records
from shared import logs
from shared.errors import (
    Conflict,
    Damaged,
    InvalidMessage,
    NotFound,
    OutcomeUnknown,
    StaleEpoch,
)
from shared.workspace import Retained, SnapshotRef, WorkspaceHead

log = logs.get(__name__)

TRIES_MAX = 5


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """On whose behalf a snapshot is taken."""

    tenant: str
    pool: str
    session: str
    epoch: int
    task: str = ""


class Save(Protocol):
    """Takes a snapshot of the workspace and uploads what the parent does not have, all of it under new names."""

    def __call__(self, parent: SnapshotRef | None, /) -> Awaitable[SnapshotRef | None]:
        """Return the snapshot; the parent itself where nothing has changed; None: nothing was ever there."""
        ...


async def commit_snapshot(
    owner: Owner,
    parent: SnapshotRef | None,
    save: Save,
    truth: tuple[Heads, Records],
    now_ms: Callable[[], int],
) -> SnapshotRef | None:
    """Save, and retain what was saved; return it, or what `save` says where nothing has changed.

    Args:
        owner: whose workspace it is, under which epoch.
        parent: what the workspace was restored from, or was saved as last.
        save: takes the snapshot and uploads it; called again where its packs may be garbage already.
        truth: workspace heads and records.
        now_ms: wall clock, milliseconds since 1970.

    Raises:
        StaleEpoch: the session has another owner, or has ended.
        Conflict: others changed the head again and again.
        ServiceError: what `save` raises; no leader.
    """
    heads, records = truth
    for _ in range(TRIES_MAX):
        roots = roots_of(await records.read(owner.tenant, owner.session))
        if roots.epoch != owner.epoch or roots.ended:
            raise StaleEpoch(
                f"session {owner.session}: its epoch is {roots.epoch}, not {owner.epoch}"
            )
        found, seq = await heads.read(owner.tenant, owner.session)
        head = found or WorkspaceHead(session=owner.session, tenant=owner.tenant, pool=owner.pool)
        base = core.root(head, parent.id) if parent is not None else None
        snapshot = await _save_without_damage(save, base)
        if snapshot is None or (base is not None and snapshot.id == base.id):
            return snapshot
        if await _retain(heads, (head, seq), _entry(owner, snapshot), (roots, now_ms())):
            return snapshot
        log.info("snapshot.raced", session_id=owner.session, snapshot_id=snapshot.id)
    raise Conflict(f"session {owner.session}: its workspace head changed {TRIES_MAX} times")


async def _save_without_damage(save: Save, base: SnapshotRef | None) -> SnapshotRef | None:
    """Save; all of the workspace where its parent can't be read: what is in the workspace is whole."""
    try:
        return await save(base)
    except (Damaged, InvalidMessage, NotFound) as exc:
        if base is None:
            raise
        log.warning("snapshot.without_parent", snapshot_id=base.id, error=str(exc))
        return await save(None)


def _entry(owner: Owner, snapshot: SnapshotRef) -> Retained:
    return Retained(snapshot=snapshot, epoch=owner.epoch, task=owner.task)


async def _retain(
    heads: Heads, read: tuple[WorkspaceHead, int], entry: Retained, at: tuple[Roots, int]
) -> bool:
    """Add an entry to the head that was read; return whether it is in."""
    head, seq = read
    try:
        await heads.write(core.added(head, entry, *at), seq)
    except Conflict:
        return False
    except OutcomeUnknown:
        now, _ = await heads.read(head.tenant, head.session)
        return now is not None and entry in now.retained
    return True
