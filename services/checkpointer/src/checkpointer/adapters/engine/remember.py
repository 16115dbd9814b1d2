"""What a save or a restore leaves for the next save on this node: which listing stood for which node."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from checkpointer.adapters.files.cache import CachedFolder, CacheKey, boot_id, save_cache
from checkpointer.core.assemble import Assembled
from checkpointer.core.listings import UNLIKE_ANY
from checkpointer.core.plan import Plan
from checkpointer.core.scans import FileOwner, Scan
from checkpointer.core.snapshot import Snapshot
from shared.errors import ServiceError
from shared.workspace import SnapshotRef


def memo_file(cache: Path | None) -> Path | None:
    """Return the file beside a cache that holds what is known of packs."""
    return None if cache is None else cache.with_suffix(".packs")


class Root(NamedTuple):
    """A workspace's own directory, and whose the workspace is."""

    device: int
    inode: int
    uid: int
    gid: int


def make_key(store: str, owner: tuple[str, str], root: Root, of: SnapshotRef | None) -> CacheKey:
    """Return what a cache belongs to.

    Args:
        store: the store's id.
        owner: tenant and session.
        root: the workspace: entries name users relative to its owner, so he belongs to it, too.
        of: the snapshot.
    """
    return CacheKey(
        store=store,
        session=f"{owner[0]}/{owner[1]} {root.uid}:{root.gid}",
        snapshot=of.id if of else "",
        boot=boot_id(),
        device=root.device,
        inode=root.inode,
    )


class SavedTree(NamedTuple):
    """What a save made of a workspace."""

    seen: Scan
    plan: Plan
    tree: Assembled
    known: Mapping[bytes, CachedFolder]
    """The cache before."""


class RestoredTree(NamedTuple):
    """What a restore wrote."""

    snapshot: Snapshot
    ref: SnapshotRef
    nodes: Mapping[bytes, bytes]
    """Path -> node of each directory."""
    owner: FileOwner | None = None
    """Whose the files are; None: the root's owner's."""


def remember_saved(file: Path, key: CacheKey, saved: SavedTree) -> None:
    """Write the cache after a save; a disk without room for it costs time next time, not the snapshot."""
    seen, plan, tree, known = saved
    cached: dict[bytes, CachedFolder] = {}
    for number, folder in enumerate(seen.folders):
        old, node = known.get(folder.path), tree.nodes.get(folder.path)
        if number not in plan.works and old is not None:
            cached[folder.path] = old if node is None else msgspec.structs.replace(old, node=node)
            continue
        listing = folder.to_cache(frozenset(tree.unsettled.get(folder.path, ())))
        if node is None and old is not None:
            node = old.node
        if node is not None:
            cached[folder.path] = CachedFolder(listing.names, listing.records, node)
    with contextlib.suppress(ServiceError):
        save_cache(file, key, cached)


def remember_restored(file: Path, root: int, store: str, restored: RestoredTree) -> None:
    """Write the cache after a restore: the next save reads what is not as it was written."""
    snapshot, ref, nodes, owner = restored
    now_ns = time.time_ns()
    cached = {path: CachedFolder(*UNLIKE_ANY, node, now_ns) for path, node in nodes.items()}
    about = os.fstat(root)
    key = make_key(
        store,
        (snapshot.tenant, snapshot.session),
        Root(about.st_dev, about.st_ino, *(owner or (about.st_uid, about.st_gid))),
        ref,
    )
    with contextlib.suppress(ServiceError):
        save_cache(file, key, cached)
