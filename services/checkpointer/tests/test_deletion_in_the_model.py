"""Deleting, in every order of what others do meanwhile, and with a fault at every call: all goes that nobody holds, no more."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from checkpointer.core import keeping
from checkpointer.loops.change_head import change_head
from checkpointer.loops.collect_garbage import Collector
from checkpointer.loops.delete_session import Deleter
from checkpointer.loops.find_orphans import YOUNG_MS, find_orphans
from checkpointer.ports.blobs import BlobStore
from checkpointer.testing.actors import FORK, LET_GO, NOW_MS, OLDER, SID, Code, first_world, writer
from checkpointer.testing.fault_store import FaultStore, How, at
from checkpointer.testing.interleave import Actor, Run, Seen, explore
from checkpointer.testing.world import FakeHeads, FakeRecords, FakeSnapshots, FakeStore, Truth
from shared.errors import Conflict, NotFound


def tools(truth: Truth, seen: Seen, store: BlobStore) -> tuple[Collector, Deleter]:
    """Return what collects and deletes."""
    heads = FakeHeads(truth, seen)
    snapshots = FakeSnapshots(truth, store)  # type: ignore[arg-type]  # whatever stores
    collects = Collector(store, heads, FakeRecords(truth, seen), snapshots, LET_GO)
    return collects, Deleter(collects, heads)


def deleter(session: str = SID, tries: int = 2) -> Actor:
    """A checkpointer that heard of a session's end."""

    async def act(truth: Truth, seen: Seen) -> None:
        _, deletes = tools(truth, seen, FakeStore(truth, seen, "deleter"))
        for _ in range(tries):
            try:
                await deletes.delete("acme", session, NOW_MS)
            except Conflict:
                continue

    return act


async def ender(truth: Truth, seen: Seen) -> None:
    """Its owner closes the session."""
    records = FakeRecords(truth, seen)
    for _ in range(3):
        record, seq = await records.read_with_seq("acme", SID)
        assert record is not None
        try:
            await records.write(replace(record, state="closed", owner=None), seq)
        except Conflict:
            continue
        return


def forking(session: str, parent: str = SID) -> Actor:
    """A fork of the older snapshot, from its record to its head."""

    async def act(truth: Truth, seen: Seen) -> None:
        heads, records = FakeHeads(truth, seen), FakeRecords(truth, seen)
        head, base = keeping.of_fork(("acme", "default", session), parent, OLDER), None
        base = head.base
        made = replace(first_world().records[SID][0], session=session, boundary=None, base=base)
        seq = await records.write(made, 0)
        try:
            await change_head(
                heads, "acme", parent, lambda one: keeping.pinned(one, OLDER, session)
            )
            await heads.write(head, 0)
        except NotFound:
            await records.write(replace(made, state="rejected"), seq)
            return
        await records.write(replace(made, boundary=OLDER), seq)

    return act


def alone(truth: Truth, *actors: Actor) -> None:
    """Let some act one after another."""
    for actor in actors:
        run = Run(truth, [actor])
        while run.ready():
            run.step(0)


def close(truth: Truth, session: str) -> None:
    """End a session."""
    record, seq = truth.records[session]
    truth.records[session] = (replace(record, state="closed"), seq + 1)


def nothing_stays(truth: Truth) -> str | None:
    """Say what is left when the session, then its fork, have ended and somebody has looked at all once more."""
    truth = copy.deepcopy(truth)
    alone(truth, deleter())
    if (wrong := truth.broken()) is not None:
        return f"after its parent was deleted: {wrong}"
    if FORK in truth.records:
        close(truth, FORK)
        alone(truth, deleter(FORK))
    alone(truth, deleter())
    return f"left: {sorted(truth.packs)} {truth.heads}" if truth.packs or truth.heads else None


SCENES: dict[str, Callable[[], list[Actor]]] = {
    "a writer": lambda: [writer(Code(), "late", 1), ender, deleter()],
    "a fork": lambda: [forking(FORK), ender, deleter()],
    "two deleters": lambda: [ender, deleter(tries=1), deleter(tries=1)],
}


@pytest.mark.parametrize("who", SCENES)
def test_all_of_an_ended_session_goes_whoever_is_about(who: str) -> None:
    """What a fork holds goes with the fork; what a late writer stored, with the next look."""
    assert explore(lambda: Run(first_world(), SCENES[who]()), at_end=nothing_stays) > 50


def test_a_chain_of_forks_goes_from_its_end() -> None:
    """Tombstones stay as long as somebody stands on them, and no longer."""
    truth = first_world()
    names = [SID, "session02", "session03", "session04"]
    for parent, session in itertools.pairwise(names):
        alone(truth, forking(session, parent))
    for session in names[:3]:
        close(truth, session)
        alone(truth, deleter(session))
    assert set(truth.heads) == set(names)
    assert truth.broken() is None
    assert OLDER.pack in truth.packs
    close(truth, names[3])
    alone(truth, deleter(names[3]))
    assert (truth.packs, truth.heads) == ({}, {})


def test_a_pin_whose_fork_never_had_a_head_goes_too() -> None:
    """The fork's record says whose it would have been."""
    truth = first_world()
    alone(truth, forking(FORK))
    del truth.heads[FORK]
    close(truth, FORK)
    alone(truth, deleter(FORK))
    assert truth.heads[SID][0].pins == ()


HOWS: tuple[How, ...] = ("before", "after")


def _world_of(kind: str) -> Truth:
    truth = first_world()
    if kind == "ended":
        close(truth, SID)
    if kind == "forked":
        alone(truth, forking(FORK))
        close(truth, SID)
    return truth


@pytest.mark.parametrize("kind", ["lives", "ended", "forked"])
def test_a_fault_at_any_call_removes_nothing_that_is_needed_and_is_made_good(kind: str) -> None:
    """Before or after each call of the store; what cannot be read or listed removes nothing at all."""
    calls = 0
    for number in range(30):
        for how in HOWS:
            truth = _world_of(kind)
            calls = max(calls, _collect_with_fault(truth, number, how))
            assert truth.broken() is None, (number, how)
            alone(truth, deleter())
            assert truth.broken() is None
            fine = _world_of(kind)
            alone(fine, deleter())
            assert set(truth.packs) == set(fine.packs), (number, how)
    assert 3 <= calls < 30


def _collect_with_fault(truth: Truth, number: int, how: How) -> int:
    """Delete, or collect, with one call that fails; return how many there were."""
    before = dict(truth.packs)
    made: list[FaultStore] = []

    async def act(world: Truth, seen: Seen) -> None:
        store = FaultStore(FakeStore(world, seen, "gc"), at(number, how))
        made.append(store)
        _, deletes = tools(world, seen, store)
        await deletes.delete("acme", SID, NOW_MS)

    alone(truth, act)
    calls = made[0].calls
    if number < len(calls) and calls[number][0] in ("list", "get", "size"):
        assert truth.packs == before, f"removed something although {calls[number]} failed"
    return len(calls)


@pytest.mark.parametrize("is_whole", [True, False])
def test_much_is_removed_only_where_all_that_stays_is_whole(is_whole: bool) -> None:
    """More than 60 %: likelier an error than garbage, unless nothing that is needed is missing."""
    truth = first_world()
    for number in range(10):
        truth.packs[f"acme/{SID}/garbage{number}"] = b"[]"
    if not is_whole:
        del truth.packs[f"acme/{SID}/common"]
    before = set(truth.packs)
    alone(truth, deleter(tries=1))

    assert (set(truth.packs) == before) == (not is_whole)
    assert len(truth.packs) in (2, len(before))


def test_packs_that_nobody_knows_are_found_when_they_are_old() -> None:
    """Those of sessions that live, or are just being saved for the first time, are left alone."""
    truth = first_world()
    zombie, unknown = (
        f"acme/{SID}/01J8ZQ5XKQJ9V3N7C2B4D6F8G0",
        "acme/session09/01J8ZQ5XKQJ9V3N7C2B4D6F8G1",
    )
    truth.packs = {zombie: b"[]", unknown: b"[]"}
    found: list[list[tuple[str, str]]] = []

    async def look(world: Truth, seen: Seen) -> None:
        store, heads = FakeStore(world, seen, "x"), FakeHeads(world, seen)
        for now_ms in (YOUNG_MS // 2, 2 * YOUNG_MS):
            found.append(await find_orphans(store, heads, FakeRecords(world, seen), now_ms))

    alone(truth, look)
    assert found == [[], [("acme", "session09")]]
    del truth.heads[SID]
    alone(truth, look)
    assert found[-1] == [("acme", "session09")], "its record lives"
    close(truth, SID)
    alone(truth, look)
    assert found[-1] == [("acme", SID), ("acme", "session09")]
