"""Fakes of a checkpointer's ports that share one world: packs, workspace heads and records, nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable
from typing import Literal

import msgspec

from checkpointer.core.keys import StoredPack, folder
from checkpointer.testing.interleave import Seen, turn
from shared.errors import AlreadyDone, Conflict, NotFound, OutcomeUnknown
from shared.record import ENDED, Record
from shared.workspace import SnapshotRef, WorkspaceHead

LATE_MAX = 3
"""Turns of the late network."""


class Truth:
    """The world: what lies in the store, and what the streams say."""

    def __init__(self) -> None:
        """Nothing is there."""
        self.packs: dict[str, bytes] = {}
        self.heads: dict[str, tuple[WorkspaceHead, int]] = {}
        self.records: dict[str, tuple[Record, int]] = {}
        self.needs: dict[str, frozenset[str]] = {}
        """Snapshot -> the packs that it consists of: what its writer knows without reading."""
        self.under_way: list[tuple[WorkspaceHead, int]] = []
        """Writes of heads that nobody waits for any more, and that are done yet (`late_network`)."""

    def key(self) -> Hashable:
        """See `World`."""
        return (
            frozenset(self.packs),
            frozenset(self.heads.items()),
            frozenset(self.records.items()),
            tuple(self.under_way),
        )

    def broken(self) -> str | None:
        """See `World`: nobody who lives names a snapshot of which a pack is gone."""
        for record, _ in self.records.values():
            if record.state not in ENDED:
                heads = [record.boundary, record.latest.snapshot if record.latest else None]
                for snapshot in heads:
                    if snapshot is not None and (lost := self._lost(snapshot)):
                        return f"{record.session}'s record refers to a deleted pack: {lost}"
        ended = {name for name, (record, _) in self.records.items() if record.state in ENDED}
        for head, _ in self.heads.values():
            has_ended = head.session in ended
            pinned = {pin.snapshot for pin in head.pins}
            for entry in head.retained:
                if has_ended and entry.snapshot.id not in pinned:
                    continue  # a late writer's, whom nobody will ask
                if lost := self._lost(entry.snapshot):
                    return f"{head.session}'s head refers to a deleted pack: {lost}"
        return None

    def _lost(self, snapshot: SnapshotRef) -> list[str]:
        return sorted(self.needs[snapshot.id] - self.packs.keys())

    def put_snapshot(
        self, name: str, session: str, pack: str, needs: frozenset[str] = frozenset()
    ) -> SnapshotRef:
        """Know a snapshot, and return it; its pack is stored by who calls."""
        snapshot = SnapshotRef(
            id=name.encode().hex().zfill(64), pack=f"acme/{session}/{pack}", at_ms=0
        )
        self.needs[snapshot.id] = needs | {snapshot.pack}
        return snapshot


class FakeStore:
    """A `BlobStore` of one actor, whose names nobody else makes."""

    id, pack_bytes = "fake", 1

    def __init__(self, truth: Truth, seen: Seen, name: str) -> None:
        """Act for the actor of that name."""
        self._truth, self._seen, self._name = truth, seen, name
        self._made = 0
        self.names_again = False
        """The same name with each upload: what every store must never be given."""

    def new_key(self, tenant: str, session: str) -> str:
        """See `BlobStore`."""
        self._made += 0 if self.names_again and self._made else 1
        return f"{folder(tenant, session)}{self._name}{self._made}"

    async def put(self, key: str, data: bytes) -> None:
        """See `BlobStore`."""
        await turn()
        if key in self._truth.packs and not self.names_again:
            raise AlreadyDone(key)
        self._truth.packs[key] = data
        self._seen.note("put")

    async def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        """See `BlobStore`."""
        await turn()
        self._seen.note(found := self._truth.packs.get(key))
        if found is None:
            raise NotFound(key)
        return found[start : None if length is None else start + length]

    async def size(self, key: str) -> int:
        """See `BlobStore`."""
        return len(await self.get(key))

    async def list(self, prefix: str = "") -> AsyncIterator[StoredPack]:
        """See `BlobStore`."""
        await turn()
        found = sorted(key for key in self._truth.packs if key.startswith(prefix))
        self._seen.note(tuple(found))
        for key in found:
            yield StoredPack(key, 1, 0)

    async def delete(self, key: str) -> None:
        """See `BlobStore`."""
        await turn()
        self._truth.packs.pop(key, None)
        self._seen.note("deleted")

    async def close(self) -> None:
        """See `BlobStore`."""


Lost = Literal["", "request", "answer", "late"]
"""What becomes of an actor's first write of a head: it is never done; done, and not answered; done when it suits."""


class FakeHeads:
    """Workspace heads of one actor."""

    def __init__(self, truth: Truth, seen: Seen, lost: Lost = "") -> None:
        """Act for an actor."""
        self._truth, self._seen, self._lost = truth, seen, lost

    async def read(self, _tenant: str, session: str) -> tuple[WorkspaceHead | None, int]:
        """See `ports.collecting.Heads`."""
        await turn()
        found = self._truth.heads.get(session, (None, 0))
        self._seen.note(found)
        return found

    async def write(self, head: WorkspaceHead, expected_seq: int) -> int:
        """See `ports.collecting.Heads`."""
        await turn()
        lost, self._lost = self._lost, ""
        if lost == "late":
            self._truth.under_way.append((head, expected_seq))
        if lost in ("request", "late"):
            raise OutcomeUnknown(head.session)
        done = write_head(self._truth, head, expected_seq)
        if lost == "answer":
            raise OutcomeUnknown(head.session)
        self._seen.note(done)
        if not done:
            raise Conflict(head.session)
        return expected_seq + 1

    async def remove(self, head: WorkspaceHead, expected_seq: int) -> None:
        """See `ports.collecting.Heads`."""
        await turn()
        if self._truth.heads.get(head.session, (None, 0))[1] == expected_seq:
            del self._truth.heads[head.session]
        self._seen.note("removed")

    async def list(self) -> AsyncIterator[tuple[WorkspaceHead, int]]:
        """See `ports.collecting.Heads`."""
        await turn()
        found = list(self._truth.heads.values())
        self._seen.note(tuple(found))
        for one in found:
            yield one


class FakeRecords:
    """Records of one actor."""

    def __init__(self, truth: Truth, seen: Seen) -> None:
        """Act for an actor."""
        self._truth, self._seen = truth, seen

    async def read(self, tenant: str, session: str) -> Record | None:
        """See `ports.collecting.Records`."""
        return (await self.read_with_seq(tenant, session))[0]

    async def read_with_seq(self, _tenant: str, session: str) -> tuple[Record | None, int]:
        """Return a record and its sequence."""
        await turn()
        found = self._truth.records.get(session, (None, 0))
        self._seen.note(found)
        return found

    async def write(self, record: Record, expected_seq: int) -> int:
        """Write a record by compare-and-set."""
        await turn()
        _, seq = self._truth.records.get(record.session, (None, 0))
        self._seen.note(seq == expected_seq)
        if seq != expected_seq:
            raise Conflict(record.session)
        self._truth.records[record.session] = (record, seq + 1)
        return seq + 1


class FakeSnapshots:
    """Snapshots of one actor: a pack is the list of what its snapshot needs."""

    def __init__(self, truth: Truth, store: FakeStore) -> None:
        """Read from `store`."""
        self._truth, self._store = truth, store

    async def packs_of(self, snapshot: SnapshotRef) -> frozenset[str]:
        """See `ports.collecting.Snapshots`."""
        found = msgspec.json.decode(await self._store.get(snapshot.pack), type=list[str])
        return frozenset((*found, snapshot.pack))

    async def check(self, snapshot: SnapshotRef, *, contents: bool) -> None:
        """See `ports.collecting.Snapshots`."""
        for key in sorted(await self.packs_of(snapshot)):
            await self._store.size(key)


def write_head(truth: Truth, head: WorkspaceHead, expected_seq: int) -> bool:
    """Compare and set a head; return whether it was as expected."""
    if truth.heads.get(head.session, (None, 0))[1] != expected_seq:
        return False
    truth.heads[head.session] = (head, expected_seq + 1)
    return True


async def late_network(truth: Truth, seen: Seen) -> None:
    """An actor that does, one by one, what nobody waits for any more."""
    for _ in range(LATE_MAX):
        await turn()
        if truth.under_way:
            seen.note(write_head(truth, *truth.under_way.pop(0)))
