"""What a job does: the session must be the asker's, then its workspace is saved, restored or rescued."""

from __future__ import annotations

import asyncio
import time

import msgspec

from checkpointer.core.asks import check_mark, check_record, rescuer
from checkpointer.core.keeping import kept_for
from checkpointer.loops import commit_snapshot as snapshots
from checkpointer.loops.change_head import change_head
from checkpointer.ports.blobs import PackMissing
from checkpointer.ports.collecting import Heads, Records
from checkpointer.ports.engine import Engine, Owner, Place, Progress
from checkpointer.ports.truth import RecordStore
from shared import logs
from shared.errors import (
    Conflict,
    Damaged,
    Forbidden,
    InvariantBroken,
    OutcomeUnknown,
    Unavailable,
)
from shared.kept import find, kept
from shared.record import Hold, Record
from shared.transitions import rescued
from shared.workspace import CheckpointAsk, Mark, SnapshotRef

log = logs.get(__name__)

WRITE_TRIES = 5
RETRY_S = 0.2


class Bounds(msgspec.Struct, frozen=True):
    """What one node does at once."""

    saves: int = 2
    restores: int = 2


class Work:
    """Does jobs. Restores do not wait for saves: somebody waits for them."""

    def __init__(
        self,
        node: str,
        engine: Engine,
        records: RecordStore,
        truth: tuple[Heads, Records],
        bounds: Bounds,
    ) -> None:
        """Work for `node` on its own workspaces; snapshots are retained by `truth`."""
        self._node = node
        self._engine = engine
        self._records = records
        self._truth, self._heads = truth, truth[0]
        self._turns = {
            "save": asyncio.Semaphore(bounds.saves),
            "rescue": asyncio.Semaphore(bounds.saves),
            "restore": asyncio.Semaphore(bounds.restores),
            "retain": asyncio.Semaphore(bounds.restores),
        }

    async def __call__(self, ask: CheckpointAsk, progress: Progress) -> SnapshotRef | None:
        """Do one job; return the snapshot that it made, or restored.

        Raises:
            StaleEpoch: the session is not the asker's (any more).
            ServiceError: what the store, the workspace and the records say.
        """
        if ask.op == "look":
            check_mark(ask, await self._engine.mark(ask.pod))
            return None
        async with self._turns[ask.op]:
            record, _ = await self._records.read_with_seq(ask.tenant, ask.session)
            mine = check_record(ask, record, self._node)
            match ask.op:
                case "restore":
                    return await self._restore(mine, ask, progress)
                case "save":
                    return await self._save(mine, ask, progress)
                case "rescue":
                    return await self._rescue(mine, ask, progress)
                case "retain":
                    return await self._retain(mine, ask)

    async def _restore(self, record: Record, ask: CheckpointAsk, progress: Progress) -> SnapshotRef:
        if ask.snapshot is None:
            raise InvariantBroken("checked when it was asked")
        await self._check_own(record, ask.snapshot)
        try:
            await self._engine.restore(_place_of(ask), ask.snapshot, progress)
        except (Damaged, PackMissing) as exc:
            progress.bad.append(exc)
            raise
        return ask.snapshot

    async def _check_own(self, record: Record, snapshot: SnapshotRef) -> None:
        """Check that a snapshot is the session's: a worker could name any pack of the store.

        Raises:
            Forbidden: neither its record nor its workspace head knows it.
        """
        own = kept(record, None)
        if all(one.snapshot != snapshot for one in own):
            head, _ = await self._heads.read(record.tenant, record.session)
            own = kept(record, head)
        if all(one.snapshot != snapshot for one in own):
            raise Forbidden(f"session {record.session}: {snapshot.id} is no snapshot of its own")

    async def _save(
        self, record: Record, ask: CheckpointAsk, progress: Progress, mark: Mark | None = None
    ) -> SnapshotRef | None:
        """Save a workspace and retain the snapshot; of a dead pod only where its mark is afterwards what it was before."""
        owner = Owner(epoch=ask.epoch, task=ask.task, position=record.position, exclude=ask.exclude)

        async def take(parent: SnapshotRef | None) -> SnapshotRef | None:
            try:
                found = await self._engine.save(_place_of(ask), owner, parent, progress)
            except (Damaged, PackMissing) as exc:
                progress.bad.append(exc)
                raise
            if mark is not None and await self._engine.mark(ask.pod) != mark:
                raise Unavailable(f"pod {ask.pod}: its workspace was removed while it was read")
            return found

        who = snapshots.Owner(
            tenant=ask.tenant,
            pool=ask.pool,
            session=ask.session,
            epoch=ask.epoch,
            task=ask.task,
        )
        return await snapshots.commit_snapshot(who, ask.snapshot, take, self._truth, _now_ms)

    async def _retain(self, record: Record, ask: CheckpointAsk) -> SnapshotRef:
        """Find a snapshot that the record is to go back to; no collection takes it from now on."""
        head, _ = await self._heads.read(ask.tenant, ask.session)
        snapshot = find(record, head, ask.wanted).snapshot
        await change_head(
            self._heads,
            ask.tenant,
            ask.session,
            lambda head: kept_for(head, snapshot, epoch=ask.epoch),
        )
        return snapshot

    async def _rescue(
        self, record: Record, ask: CheckpointAsk, progress: Progress
    ) -> SnapshotRef | None:
        mark = check_mark(ask, await self._engine.mark(ask.pod))
        ask = msgspec.structs.replace(ask, exclude=mark.exclude)
        snapshot = await self._save(record, ask, progress, mark)
        hold = Hold(rescuer(self._node), ask.epoch)
        for _ in range(WRITE_TRIES):
            now, seq = await self._records.read_with_seq(ask.tenant, ask.session)
            if now is not None and _has(now, ask.epoch, snapshot):
                return snapshot
            check_record(ask, now, self._node)
            assert now is not None
            try:
                after = rescued(now, hold, snapshot=snapshot, whole=not mark.task)
                await self._records.write(after, seq)
            except (Conflict, OutcomeUnknown, Unavailable) as exc:
                log.info("rescue.unsure", session_id=ask.session, error=str(exc))
                await asyncio.sleep(RETRY_S)
            else:
                return snapshot
        raise Unavailable(f"session {ask.session}: its record could not be written after a rescue")


def _now_ms() -> int:
    return int(time.time() * 1000)


def _place_of(ask: CheckpointAsk) -> Place:
    return Place(pod=ask.pod, tenant=ask.tenant, session=ask.session)


def _has(record: Record, epoch: int, snapshot: SnapshotRef | None) -> bool:
    """Return whether a record says what `rescued` wrote: an answer was lost."""
    named = (record.boundary, record.latest.snapshot if record.latest else None)
    return record.epoch == epoch and record.state == "queued" and snapshot in (*named, None)
