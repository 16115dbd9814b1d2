"""Saves and restores on real directories and a real local store, whose calls can be made to fail."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from checkpointer.adapters.engine.restore import Follower, Restored, RestoreJob, restore
from checkpointer.adapters.engine.save import Saved, SaveJob, Watcher, save
from checkpointer.adapters.engine.stored import Memo, StoredSnapshot
from checkpointer.adapters.engine.threads import Bridge, Transfers
from checkpointer.adapters.stores.local import LocalStore
from checkpointer.core.listings import RACY_NS
from checkpointer.core.snapshot import Snapshot
from checkpointer.loops.patient_store import PatientStore
from checkpointer.testing.fault_store import FaultStore
from shared.workspace import SnapshotRef

TENANT, SESSION = "acme", "01J8ZQ5XKQJ9V3N7C2B4D6F8G0"


class Rig:
    """A store, workspaces, and the two pipelines between them."""

    def __init__(self, base: Path, local: LocalStore) -> None:
        """Use the fixture."""
        self.base = base
        self.local = local
        self.faults = FaultStore(local)
        self.store = PatientStore(self.faults, stall_s=0.0)  # one try: each fault is an answer
        self.transfers: Transfers | None = None
        """Of all jobs together; None: each has its own."""
        self._places = 0
        self.bridges: list[Bridge] = []
        """Of all jobs so far."""

    def new_place(self) -> Path:
        """Return a new empty directory."""
        self._places += 1
        place = self.base / f"place{self._places}"
        place.mkdir()
        return place

    async def save(
        self, place: Path, parent: SnapshotRef | None = None, *, cached: bool = True, **more: Any
    ) -> Saved:
        """Save a workspace; its cache lies beside it."""
        watcher = more.pop("watcher", Watcher())
        root = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
        try:
            job = SaveJob(
                root=root, tenant=TENANT, session=SESSION, parent=parent,
                cache=self.cache(place) if cached else None, **more,
            )  # fmt: skip
            return await asyncio.to_thread(save, job, self._bridge(), watcher)
        finally:
            os.close(root)

    async def restore(
        self,
        ref: SnapshotRef,
        place: Path,
        *,
        cached: bool = True,
        follower: Follower | None = None,
    ) -> Restored:
        """Restore a snapshot into an empty directory."""
        root = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
        try:
            job = RestoreJob(root=root, ref=ref, cache=self.cache(place) if cached else None)
            return await asyncio.to_thread(restore, job, self._bridge(), follower or Follower())
        finally:
            os.close(root)

    async def body(self, ref: SnapshotRef) -> Snapshot:
        """Read a snapshot's body from the store."""
        stored = StoredSnapshot(ref, self._bridge(), Memo(self.store.id))
        return await asyncio.to_thread(stored.body)

    @staticmethod
    async def settle() -> None:
        """Wait until what was written is older than a tick of the clock that stamps files."""
        await asyncio.sleep(2 * RACY_NS / 1e9)

    def cache(self, place: Path) -> Path:
        """Return where the cache of a workspace lies."""
        return self.base / f"{place.name}.cache"

    def files(self) -> list[Path]:
        """Return the files that hold packs."""
        folder = self.base / "store"
        return sorted(one for one in folder.rglob(f"*{SESSION}/*") if one.is_file())

    def _bridge(self) -> Bridge:
        loop = asyncio.get_running_loop()
        self.bridges.append(Bridge(self.store, loop, self.transfers))
        return self.bridges[-1]


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    """A rig on a store of its own."""
    local = await LocalStore.open(tmp_path / "store", "cluster")
    try:
        yield Rig(tmp_path, local)
    finally:
        await local.close()


def describe_tree(place: Path) -> dict[bytes, tuple[object, ...]]:
    """Return all that a snapshot promises of a tree, by path. Files of several names are told by the names."""
    found: dict[bytes, tuple[object, ...]] = {}
    links: dict[int, list[bytes]] = {}
    base = os.fsencode(place)
    for folder, folders, files in os.walk(base):
        for name in folders + files:
            path = os.path.join(folder, name)  # noqa: PTH118 - bytes
            about = os.lstat(path)
            short = path[len(base) + 1 :]
            content: object = None
            if stat.S_ISREG(about.st_mode):
                content = Path(os.fsdecode(path)).read_bytes()
                links.setdefault(about.st_ino, []).append(short)
            elif stat.S_ISLNK(about.st_mode):
                content = os.readlink(path)  # noqa: PTH115 - bytes
            marks = () if stat.S_ISLNK(about.st_mode) else tuple(
                (one, os.getxattr(path, one)) for one in sorted(os.listxattr(path)) if one.startswith("user.")
            )  # fmt: skip
            found[short] = (about.st_mode, about.st_mtime_ns, content, marks)
    for names in links.values():
        for name in names:
            found[name] += (tuple(sorted(names)) if len(names) > 1 else (),)
    return found


@pytest.fixture
def describe() -> Callable[[Path], dict[bytes, tuple[object, ...]]]:
    """Tells all that a snapshot promises of a tree."""
    return describe_tree


def empty(place: Path) -> None:
    """Remove all in a directory."""
    for one in place.iterdir():
        shutil.rmtree(one) if one.is_dir() and not one.is_symlink() else one.unlink()
