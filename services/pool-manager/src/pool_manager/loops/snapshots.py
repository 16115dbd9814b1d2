"""Answers what clients ask about snapshots, with hands of its own: a long look keeps no other question waiting."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import msgspec

from pool_manager.loops.fork import SWEEP_S, Forker
from pool_manager.loops.hands import Hands
from pool_manager.ports import Truth
from pool_manager.ports.workspaces import Heads, Keepers
from shared import limits, messages
from shared.errors import NotFound
from shared.ids import parse_task_id
from shared.kept import find, row, rows
from shared.record import ENDED, Record
from shared.snapshots import (
    CompareAsk,
    DiffAnswer,
    DiffAsk,
    ForkAnswer,
    ForkAsk,
    LabelAsk,
    NameAsk,
    SnapshotAnswer,
    SnapshotsAnswer,
    SnapshotsAsk,
    check_name,
)
from shared.workspace import WorkspaceHead

Serve = Callable[[str, bytes], Awaitable[msgspec.Struct]]


class SnapshotDesk:
    """Serves `ask.<tenant>.snapshots`, `snapshot_name`, `fork` and `diff`."""

    def __init__(self, truth: Truth, heads: Heads, keepers: Keepers, forker: Forker) -> None:
        """Answer from record and workspace head; `keepers` change heads and look into snapshots."""
        self.hands = Hands("snapshots", count=8, pending_max=256)
        self._truth = truth
        self._heads = heads
        self._keepers = keepers
        self._forker = forker
        self.serves: dict[str, Serve] = {
            "snapshots": self._list,
            "snapshot_name": self._name,
            "fork": self._fork,
            "diff": self._differ,
        }

    async def run(self) -> None:
        """End forks that nobody finished, until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_S)
            await self._forker.run_once(time.monotonic())

    async def _list(self, tenant: str, body: bytes) -> SnapshotsAnswer:
        ask = messages.decode(body, SnapshotsAsk)
        record, head = await self._look(tenant, ask.session)
        known = tuple(rows(record, head))
        if record.state in ENDED and not known:
            raise NotFound(
                f"session {record.session} has ended ({record.state}): its files are gone"
            )
        return SnapshotsAnswer(session=record.session, snapshots=known)

    async def _name(self, tenant: str, body: bytes) -> SnapshotAnswer:
        ask = messages.decode(body, NameAsk)
        check_name(ask.name)
        record, head = await self._look(tenant, ask.session)
        meant = find(record, head, ask.snapshot)
        label = LabelAsk(
            tenant=tenant, session=record.session, snapshot=meant.snapshot.id, name=ask.name
        )
        await self._keepers.keep("name", label)
        named = msgspec.structs.replace(meant, name=ask.name)
        return SnapshotAnswer(snapshot=row(named, record, head))

    async def _fork(self, tenant: str, body: bytes) -> ForkAnswer:
        return await self._forker.fork(tenant, messages.decode(body, ForkAsk))

    async def _differ(self, tenant: str, body: bytes) -> DiffAnswer:
        ask = messages.decode(body, DiffAsk)
        record, head = await self._look(tenant, ask.session)
        before, after = find(record, head, ask.before), find(record, head, ask.after)
        compare = CompareAsk(
            before=before.snapshot, after=after.snapshot, skip=ask.skip, limit=ask.limit
        )
        found = await self._keepers.keep("diff", compare)
        following = ask.skip + len(found.changes)
        is_cut = found.more and following >= limits.DIFF_CHANGES_MAX
        return DiffAnswer(
            before=before.snapshot.id,
            after=after.snapshot.id,
            changes=found.changes,
            next=following if found.more and not is_cut else None,
            truncated=is_cut,
        )

    async def _look(self, tenant: str, session: str) -> tuple[Record, WorkspaceHead | None]:
        """Return a session's record and workspace head.

        Raises:
            NotFound: there is no such session of this tenant.
            Unavailable: no answer.
        """
        known = await self._truth.read(tenant, parse_task_id(session))
        if known is None:
            raise NotFound(f"session {session} is not known (yet)")
        return known.record, await self._heads.head(tenant, session)
