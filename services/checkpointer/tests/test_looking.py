"""Looks into snapshots, of real workspaces in a real store: what differs, path by path and page by page."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from checkpointer.adapters import looking
from checkpointer.adapters.engine.threads import Bridge
from checkpointer.adapters.looking import SnapshotLooker
from checkpointer.adapters.pods.local import LocalPods
from checkpointer.adapters.snapshots import SnapshotEngine
from checkpointer.adapters.stores.local import LocalStore
from checkpointer.core.trees import Change
from checkpointer.loops.patient_store import PatientStore
from checkpointer.ports.engine import Owner, Place, Progress
from shared.errors import NotFound
from shared.snapshots import DiffRow
from shared.workspace import SnapshotRef

PLACE = Place(pod="default-0-1", tenant="acme", session="session-1")


class Bench:
    """A workspace, and what saves and compares it."""

    def __init__(self, folder: Path, store: PatientStore) -> None:
        """Join them."""
        self.workspace = folder / "pods" / PLACE.pod / "workspace"
        self.workspace.mkdir(parents=True)
        self._engine = SnapshotEngine(LocalPods(folder / "pods"), store)
        self._last: SnapshotRef | None = None
        self.looker = SnapshotLooker(lambda: store)

    async def save(self, task: str) -> SnapshotRef:
        """Take a snapshot."""
        owner = Owner(epoch=1, task=task, position=0)
        made = await self._engine.save(PLACE, owner, self._last, Progress())
        assert made is not None
        self._last = made
        return made

    async def all_pages(self, before: SnapshotRef, after: SnapshotRef, limit: int) -> list[DiffRow]:
        """Return all differences, read so many at a time."""
        found: list[DiffRow] = []
        more = True
        while more:
            page, more = await self.looker.differ(before, after, len(found), limit)
            assert len(page) <= limit
            found += page
        return found


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    """A bench on a store in a folder."""
    store = await LocalStore.open(tmp_path / "store", "cluster")
    yield Bench(tmp_path, PatientStore(store))
    await store.close()


async def test_two_snapshots_are_compared_path_by_path(bench: Bench) -> None:
    """Added, changed and removed, with their sizes; both ways; equal directories are no difference."""
    place = bench.workspace
    (place / "same" / "deep").mkdir(parents=True)
    (place / "same" / "deep" / "file").write_bytes(bytes(100_000))
    (place / "grows").write_bytes(b"1" * 10)
    (place / "goes").mkdir()
    (place / "goes" / "with").write_bytes(b"x" * 50_000)
    (place / "link").symlink_to("grows")
    first = await bench.save("task-0001")
    (place / "grows").write_bytes(b"2" * 70_000)
    shutil.rmtree(place / "goes")
    (place / "new").write_bytes(b"n" * 7)
    (place / "link").unlink()
    (place / "link").symlink_to("new")
    os.mkfifo(place / "pipe")
    second = await bench.save("task-0002")

    found = {row.path: row for row in await bench.all_pages(first, second, 100)}
    back = {row.path: row.change for row in await bench.all_pages(second, first, 100)}

    assert found == {
        "grows": DiffRow(path="grows", change="changed", size_before=10, size_after=70_000),
        "goes": DiffRow(path="goes", change="removed", type="directory"),
        "goes/with": DiffRow(path="goes/with", change="removed", size_before=50_000),
        "new": DiffRow(path="new", change="added", size_after=7),
        "link": DiffRow(path="link", change="changed", type="symlink"),
        "pipe": DiffRow(path="pipe", change="added", type="other"),
    }
    assert back["new"] == "removed"
    assert back["goes/with"] == "added"
    assert await bench.all_pages(second, second, 100) == []


async def test_differences_are_paged_without_a_gap(bench: Bench) -> None:
    """Each once, whatever the size of a page; a page of long paths ends sooner."""
    (bench.workspace / "first").write_text("x")
    first = await bench.save("task-0001")
    for number in range(30):
        folder = bench.workspace / f"d{number % 3}"
        folder.mkdir(exist_ok=True)
        (folder / f"f{number}").write_text(str(number))
    second = await bench.save("task-0002")

    whole = await bench.all_pages(first, second, 500)
    assert len(whole) == 33
    for limit in (1, 7, 33):
        assert await bench.all_pages(first, second, limit) == whole


async def test_all_pages_take_one_way_through_the_trees(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a hundred pages, too: each goes on where the one before it ended. Whoever goes back begins anew."""
    (bench.workspace / "first").write_text("x")
    first = await bench.save("task-0001")
    for number in range(30):
        (bench.workspace / f"f{number}").write_text(str(number))
    second = await bench.save("task-0002")
    ways: list[SnapshotRef] = []
    walk = looking._changes

    def count(before: SnapshotRef, after: SnapshotRef, bridge: Bridge) -> Iterator[Change]:
        ways.append(after)
        return walk(before, after, bridge)

    monkeypatch.setattr(looking, "_changes", count)
    whole = await bench.all_pages(first, second, 1)
    assert (len(whole), len(ways)) == (30, 1)
    page, more = await bench.looker.differ(first, second, 3, 4)
    assert (list(page), more) == (whole[3:7], True)
    page, _ = await bench.looker.differ(first, second, 2, 4)
    assert list(page) == whole[2:6]
    assert len(ways) == 3


async def test_a_snapshot_that_is_gone_is_said(bench: Bench) -> None:
    """By the pack that is not there."""
    (bench.workspace / "file").write_text("x")
    first = await bench.save("task-0001")
    gone = replace(
        first, id="0" * 64, pack=first.pack[:-1] + ("0" if first.pack[-1] != "0" else "1")
    )

    with pytest.raises(NotFound, match=gone.pack):
        await bench.looker.differ(first, gone, 0, 10)
