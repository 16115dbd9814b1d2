"""Who meets over one session's packs: owners and their checkpointers, collectors, forks. It is the real code that runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType
from typing import Any

import msgspec
from msgspec.structs import replace

from checkpointer.core import keeping
from checkpointer.core.retention import Retention
from checkpointer.loops import collect_garbage, commit_snapshot
from checkpointer.loops.change_head import change_head
from checkpointer.loops.patient_store import PatientStore
from checkpointer.testing.interleave import Actor, Seen
from checkpointer.testing.world import (
    FakeHeads,
    FakeRecords,
    FakeSnapshots,
    FakeStore,
    Lost,
    Truth,
)
from shared.errors import Conflict, OutcomeUnknown
from shared.record import Record
from shared.workspace import Pin, Retained, SnapshotRef, WorkspaceHead

SID = "session01"
FORK = "session02"
NOW_MS = 1_000_000_000_000
LET_GO = Retention(last=0, hours=0)


OLDER, NEWER = (
    SnapshotRef(id=name.encode().hex().zfill(64), pack=f"acme/{SID}/{name}", at_ms=0)
    for name in ("older", "newer")
)
REUSED = frozenset(f"acme/{SID}/{name}" for name in ("common", "rare", "orphan"))
"""Packs of content that a writer needs too, and does not upload where he believes that they are there."""


class Code:
    """The code that runs: the real one, or one without a rule."""

    def __init__(self) -> None:
        """Take the real one."""
        self.commit: Any = commit_snapshot
        self.collect: Any = collect_garbage
        self.pinned: Callable[..., WorkspaceHead] = keeping.pinned
        self.kept_for: Callable[..., WorkspaceHead] = keeping.kept_for
        self.names_again = False
        """Uploads of a second try go under the names of the first."""
        self.checks_first = False
        """A fork is told that its snapshot is retained before it pins it."""
        self.knows_all = False
        """A writer builds on whatever it ever saw in the store."""
        self.lost: Lost = ""
        """What becomes of each actor's first write of a head."""


def without(module: ModuleType, *changes: tuple[str, str]) -> ModuleType:
    """Return a module with other text in it; each text must be there, once."""
    source = inspect.getsource(module)
    for old, new in changes:
        assert source.count(old) == 1, f"{module.__name__} does not hold this once: {old}"
        source = source.replace(old, new)
    changed = ModuleType(module.__name__)
    exec(compile(source, f"changed {module.__name__}", "exec"), changed.__dict__)  # noqa: S102 - text of our own
    return changed


def first_world() -> Truth:
    """Return a session with two snapshots, of which the older one will be let go, and a pack that nobody needs."""
    truth = Truth()
    needs = {"older": ["common", "rare"], "newer": ["common"]}
    for name, packs in needs.items():
        keys = [f"acme/{SID}/{pack}" for pack in packs]
        snapshot = truth.put_snapshot(name, SID, name, frozenset(keys))
        truth.packs[snapshot.pack] = msgspec.json.encode(keys)
    for pack in REUSED:
        truth.packs[pack] = b"[]"
    record = Record(
        session=SID,
        tenant="acme",
        pool="default",
        state="running",
        lane="batch",
        client_lane="batch",
        keep=True,
        accepted_ms=0,
        epoch=1,
        owner="a",
        boundary=NEWER,
    )
    truth.records[SID] = (record, 1)
    retained = tuple(Retained(snapshot=one, epoch=1, task=one.pack) for one in (OLDER, NEWER))
    head = WorkspaceHead(session=SID, tenant="acme", pool="default", retained=retained)
    truth.heads[SID] = (head, 1)
    return truth


def writer(code: Code, name: str, epoch: int, builds_on: SnapshotRef | None = None) -> Actor:
    """A worker and its checkpointer: claims under its epoch, saves, names the snapshot in the record."""

    async def act(truth: Truth, seen: Seen) -> None:
        records, heads = FakeRecords(truth, seen), FakeHeads(truth, seen, code.lost)
        store = FakeStore(truth, seen, name)
        store.names_again = code.names_again
        record, seq = await records.read_with_seq("acme", SID)
        while record is not None and record.epoch < epoch:
            try:
                record = replace(record, epoch=epoch, owner=name)
                seq = await records.write(record, seq)
            except Conflict:
                record, seq = await records.read_with_seq("acme", SID)
        if record is None or record.epoch != epoch:
            return
        taken = 0

        async def save(parent: SnapshotRef | None) -> SnapshotRef:
            nonlocal taken
            taken += 1
            known = truth.needs[parent.id] if parent else frozenset()
            known |= frozenset(truth.packs) if code.knows_all else frozenset()
            needs = known & REUSED
            key = await PatientStore(store).upload("acme", SID, msgspec.json.encode(sorted(needs)))
            return truth.put_snapshot(f"{name}{taken}", SID, key.rpartition("/")[2], needs)

        owner = commit_snapshot.Owner(
            tenant="acme", pool="default", session=SID, epoch=epoch, task=name
        )
        snapshot = await code.commit.commit_snapshot(
            owner, builds_on or record.boundary, save, (heads, records), lambda: NOW_MS
        )
        await records.write(replace(record, boundary=snapshot), seq)

    return act


def collector(code: Code) -> Actor:
    """A checkpointer that collects the session's garbage."""

    async def act(truth: Truth, seen: Seen) -> None:
        store = FakeStore(truth, seen, "gc")
        heads, records = FakeHeads(truth, seen, code.lost), FakeRecords(truth, seen)
        snapshots = FakeSnapshots(truth, store)
        collects = code.collect.Collector(store, heads, records, snapshots, LET_GO)
        await collects.collect("acme", SID, NOW_MS)

    return act


def fork(code: Code) -> Actor:
    """A checkpointer that pins the older snapshot for a fork, and then begins the fork with it."""

    async def act(truth: Truth, seen: Seen) -> None:
        heads = FakeHeads(truth, seen, code.lost)
        if code.checks_first:
            head, _ = await heads.read("acme", SID)
            if head is None or OLDER not in [entry.snapshot for entry in head.retained]:
                return
        await change_head(heads, "acme", SID, lambda head: code.pinned(head, OLDER, FORK))
        with suppress(OutcomeUnknown):
            await heads.write(keeping.of_fork(("acme", "default", FORK), SID, OLDER), 0)

    return act


def back(code: Code) -> Actor:
    """An owner that goes back to the older snapshot: it is made as safe as a new one, then named in the record."""

    async def act(truth: Truth, seen: Seen) -> None:
        records, heads = FakeRecords(truth, seen), FakeHeads(truth, seen, code.lost)
        record, seq = await records.read_with_seq("acme", SID)
        assert record is not None
        await change_head(heads, "acme", SID, lambda head: code.kept_for(head, OLDER, epoch=1))
        await records.write(replace(record, boundary=OLDER), seq)

    return act


def in_place(head: WorkspaceHead, snapshot: SnapshotRef, *, epoch: int) -> WorkspaceHead:
    """Keep a snapshot by its epoch alone."""
    retained = tuple(
        replace(one, epoch=epoch) if one.snapshot == snapshot else one for one in head.retained
    )
    return replace(head, retained=retained)


def pin_only(head: WorkspaceHead, snapshot: SnapshotRef, name: str) -> WorkspaceHead:
    """Pin whatever is asked for."""
    pin = Pin(snapshot=snapshot.id, session=name)
    return head if pin in head.pins else replace(head, pins=(*head.pins, pin))
