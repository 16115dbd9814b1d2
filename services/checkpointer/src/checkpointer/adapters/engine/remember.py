"""What a save or a restore leaves for the next save on this node: which listing stood for which node."""

from __future__ import annotations

import contextlib
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from checkpointer.adapters.files.cache import CachedFolder, CacheKey, boot_id, save_cache
from checkpointer.adapters.files.metadata import MODE_KEPT
from checkpointer.adapters.files.scan import scan
from checkpointer.core.assemble import Assembled
from checkpointer.core.entries import DIRECTORY, Entry, decode_node, show
from checkpointer.core.excludes import Excludes
from checkpointer.core.listings import Stat
from checkpointer.core.plan import KIND_OF, Plan
from checkpointer.core.scans import Folder, Look, Scan
from checkpointer.core.snapshot import Snapshot
from shared.errors import ServiceError
from shared.workspace import SnapshotRef


def memo_file(cache: Path | None) -> Path | None:
    """Return the file beside a cache that holds what is known of packs."""
    return None if cache is None else cache.with_suffix(".packs")


def make_key(store: str, owner: tuple[str, str], seen: Scan, of: SnapshotRef | None) -> CacheKey:
    """Return what a cache belongs to.

    Args:
        store: the store's id.
        owner: tenant and session.
        seen: a scan of the workspace: entries name users relative to its owner, so he belongs to it, too.
        of: the snapshot.
    """
    return CacheKey(
        store=store,
        session=f"{owner[0]}/{owner[1]} {seen.uid}:{seen.gid}",
        snapshot=of.id if of else "",
        boot=boot_id(),
        device=seen.device,
        inode=seen.inode,
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
    """Write the cache after a restore: the next save reads what is not as it was written.

    A restored file has the modification time that was set, until somebody writes to it.
    """
    snapshot, ref, nodes = restored
    with contextlib.suppress(ServiceError):
        seen = scan(root, Look(excludes=Excludes(snapshot.excludes), sync=False))
        cached: dict[bytes, CachedFolder] = {}
        for folder in seen.folders:
            node = nodes.get(folder.path)
            if node is not None:
                other = _differing(folder, decode_node(node, show(folder.path)), seen)
                listing = folder.to_cache(other)
                cached[folder.path] = CachedFolder(listing.names, listing.records, node)
        key = make_key(store, (snapshot.tenant, snapshot.session), seen, ref)
        save_cache(file, key, cached)


def _differing(folder: Folder, entries: list[Entry], seen: Scan) -> frozenset[bytes]:
    """Return the names that are not surely as the snapshot has them."""
    wanted = {entry.name: entry for entry in entries}
    return frozenset(
        name
        for name, about in folder.listing.entries()
        if (entry := wanted.get(name)) is None or not _is_as_restored(about, entry, seen)
    )


def _is_as_restored(about: Stat, entry: Entry, seen: Scan) -> bool:
    """Return whether what is there is what was restored, to the last bit that an entry holds."""
    mode = about.mode
    return (
        about.mtime_ns == entry.mtime_ns
        and (about.size == entry.size or entry.kind == DIRECTORY)
        and KIND_OF[stat.S_IFMT(mode)] == entry.kind
        and stat.S_IMODE(mode) == entry.mode == entry.mode & MODE_KEPT
        and about.uid == seen.uid
        and about.gid == seen.gid
        and not entry.uid
        and not entry.gid
        and about.link == entry.link_group
    )
