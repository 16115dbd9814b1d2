"""Verifying a store: whatever is damaged is named, with the sessions that it concerns, and nothing else is."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from checkpointer.adapters.contents import StoredContents
from checkpointer.adapters.engine.save import SaveJob, Watcher, save
from checkpointer.core.verify import MISSING, Wanted
from checkpointer.loops.scrub import Scrubber
from checkpointer.loops.verify_store import verify_store
from checkpointer.testing.actors import SID, first_world
from checkpointer.testing.interleave import Seen
from checkpointer.testing.world import FakeHeads, FakeRecords, Truth
from shared.errors import Unavailable
from shared.verified import PackDamage, StoreVerified
from shared.workspace import Retained, SnapshotRef, WorkspaceHead

FORK = "01J8ZQ5XKQJ9V3N7C2B4D6F8G1"


class Verified:
    """A session with two snapshots, and a fork that builds on the first of them."""

    def __init__(self, rig: Any) -> None:
        """Use `make`."""
        self.rig = rig
        self.wanted: list[Wanted] = []

    async def make(self) -> None:
        """Save all three."""
        place = self.rig.new_place()
        (place / "first.bin").write_bytes(random.Random(1).randbytes(300_000))
        first = (await self.rig.save(place)).ref
        (place / "second.bin").write_bytes(random.Random(2).randbytes(300_000))
        second = (await self.rig.save(place, first)).ref
        (place / "second.bin").unlink()
        (place / "third.bin").write_bytes(random.Random(3).randbytes(300_000))
        root = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
        try:
            job = SaveJob(root=root, tenant="acme", session=FORK, parent=first)
            third = (await asyncio.to_thread(save, job, self.rig._bridge(), Watcher())).ref
        finally:
            os.close(root)
        self.first, self.second, self.third = first, second, third
        own, fork = f"acme/{first.pack.split('/')[1]}", f"acme/{FORK}"
        self.wanted = [(own, first), (own, second), (fork, third)]
        self.own, self.fork = own, fork

    def file(self, snapshot: SnapshotRef) -> Path:
        """Return the file of a snapshot's own pack."""
        place: Path = self.rig.local._root / snapshot.pack
        return place

    async def verify(self, *, by_heads: bool = True) -> StoreVerified:
        """Verify the store."""
        store = self.rig.store
        return await verify_store(store, StoredContents(store), self.wanted if by_heads else None)


@pytest.fixture
async def there(rig: Any) -> Verified:
    """A store with something in it."""
    made = Verified(rig)
    await made.make()
    return made


async def test_a_store_that_is_whole_is_said_to_be(there: Verified) -> None:
    """By the heads, and by what lies in it alone."""
    report = await there.verify()
    assert (report.damage, report.sessions, report.snapshots, report.packs) == ((), 2, 3, 3)
    alone = await there.verify(by_heads=False)
    assert (alone.damage, alone.sessions, alone.snapshots) == ((), 2, 2)
    assert alone.bytes == report.bytes > 900_000


def flip(at: float) -> Callable[[Path], None]:
    """Return what changes one bit of a file, at a share of its length."""

    def act(file: Path) -> None:
        data = bytearray(file.read_bytes())
        data[int(at * (len(data) - 1))] ^= 1
        file.write_bytes(data)

    return act


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "first byte": (flip(0.0), "it does not begin like a pack"),
    "content": (flip(0.3), "another hash|unpack"),
    "footer": (flip(0.9995), "footer|trailer|hash"),
    "last byte": (flip(1.0), "end|trailer"),
    "cut off": (lambda file: os.truncate(file, 200_000), "end|trailer"),
    "empty": (lambda file: os.truncate(file, 0), "begin|bytes"),
    "gone": (lambda file: file.unlink(), "it is not there"),
}


@pytest.mark.parametrize("how", DAMAGES)
async def test_damage_is_named_with_everybody_who_needs_it(there: Verified, how: str) -> None:
    """A pack of the parent's concerns its fork too; one of the fork's the fork alone."""
    act, said = DAMAGES[how]
    act(there.file(there.first))
    (damage,) = (await there.verify()).damage
    assert damage.pack == there.first.pack
    assert damage.sessions == (there.own, there.fork)
    assert any(word in damage.what for word in said.split("|")), damage.what


async def test_damage_of_a_fork_does_not_concern_its_parent(there: Verified) -> None:
    """Nor does what nobody needs any more concern anybody, where it is known who needs what."""
    flip(0.3)(there.file(there.third))
    (damage,) = (await there.verify()).damage
    assert damage.sessions == (there.fork,)
    there.wanted = there.wanted[:2]
    assert (await there.verify()).damage == ()
    (alone,) = (await there.verify(by_heads=False)).damage
    assert alone.sessions == (there.fork,)


async def test_a_store_that_cannot_be_read_is_not_said_to_be_whole(there: Verified) -> None:
    """Nor to be damaged: nothing is known."""
    there.rig.faults.down = True
    with pytest.raises(Unavailable):
        await there.verify()


async def test_scrubbing_names_what_rots_and_not_what_was_let_go(there: Verified) -> None:
    """Of one session; a pack that a collector took in the meantime is no damage."""
    tenant, session = there.own.split("/")
    truth, seen = Truth(), Seen()
    record = replace(
        first_world().records[SID][0], session=session, boundary=there.second, owner="w"
    )
    retained = tuple(Retained(snapshot=ref, epoch=1) for ref in (there.first, there.second))
    head = WorkspaceHead(session=session, tenant=tenant, pool="default", retained=retained)
    truth.records[session], truth.heads[session] = (record, 1), (head, 1)
    store = there.rig.store
    heads, records = FakeHeads(truth, seen), FakeRecords(truth, seen)
    told: list[PackDamage] = []
    scrubber = Scrubber(store, (heads, records), StoredContents(store), told.append)
    assert await scrubber.scrub(tenant, session) == ()

    flip(0.3)(there.file(there.second))
    (damage,) = await scrubber.scrub(tenant, session)
    assert (damage.pack, damage.sessions) == (there.second.pack, (there.own,))
    flip(0.3)(there.file(there.second))
    there.file(there.second).unlink()
    (damage,) = await scrubber.scrub(tenant, session)
    assert damage.what == "it is not there"
    assert [one.what == MISSING for one in told] == [False, True]

    reads = heads.read

    async def read_and_let_go(tenant: str, session: str) -> tuple[WorkspaceHead | None, int]:
        found = await reads(tenant, session)
        truth.records[session] = (replace(record, boundary=there.first), 2)
        truth.heads[session] = (replace(head, retained=retained[:1]), 2)
        return found

    heads.read = read_and_let_go  # type: ignore[method-assign]  # a collector comes in between
    assert await scrubber.scrub(tenant, session) == ()


async def test_the_program_says_what_it_found(there: Verified) -> None:
    """As JSON, by its exit code, and in one line where it cannot."""

    async def run(store: str) -> tuple[int, str, str]:
        env = {"CHECKPOINTER_STORE": store, "PATH": os.environ["PATH"]}
        command = [sys.executable, "-m", "checkpointer.verify"]
        done = await asyncio.to_thread(
            subprocess.run, command, env=env, capture_output=True, text=True, timeout=30
        )
        return done.returncode, done.stdout, done.stderr

    root = there.rig.local._root
    code, out, err = await run(f"local:{root}")
    assert (code, err) == (0, "")
    assert msgspec.json.decode(out, type=StoreVerified) == await there.verify(by_heads=False)
    there.file(there.second).unlink()
    flip(0.3)(there.file(there.first))
    code, out, _ = await run(f"local:{root}")
    assert code == 1
    assert {one["pack"] for one in json.loads(out)["damage"]} >= {there.first.pack}
    for store in ("nats", f"local:{root}-not-there", "nonsense"):
        code, out, err = await run(store)
        assert (code, out) == (2, "")
        assert len(err.splitlines()) == 1
    assert not await asyncio.to_thread(Path(f"{root}-not-there").exists), "looking makes nothing"
