"""A snapshot's body: one chunk in the last frame of its pack. Its id, the blake3 of the body, names the whole tree."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from checkpointer.core import chunks
from checkpointer.core.bounds import (
    FRAME_RAW_BYTES,
    SNAPSHOT_BYTES_MAX,
    SNAPSHOT_PACKS_MAX,
    TREE_ENTRIES_MAX,
)
from checkpointer.core.entries import DIRECTORY, Entry
from checkpointer.core.ids import make_id
from checkpointer.core.packs import PackInfo
from shared.errors import Damaged, InvalidMessage, LimitExceeded
from shared.workspace import PackKey, SnapshotId, SnapshotRef

VERSION: Final = 1
TORN_PATHS_MAX: Final = 1_000
"""Torn paths that a body names."""
TORN_BYTES_MAX: Final = 256 * 1024
"""Bytes of all of them."""

Count = Annotated[int, Meta(ge=0)]


class IndexInfo(msgspec.Struct, frozen=True, array_like=True):
    """An index object, as a snapshot names it."""

    key: PackKey
    size: int
    id: bytes
    covers: int
    """It knows the first so many of the snapshot's packs."""


class Chunker(msgspec.Struct, frozen=True, array_like=True):
    """The numbers by which files were cut, for whoever reads old snapshots."""

    whole_bytes_max: int = chunks.WHOLE_BYTES_MAX
    fixed_bytes: int = chunks.FIXED_BYTES
    average_bytes: int = chunks.AVERAGE_BYTES
    large_bytes: int = chunks.LARGE_BYTES
    frame_bytes: int = FRAME_RAW_BYTES


class HotPath(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A file that a restore brings first."""

    path: bytes
    age: int
    """Snapshots since it changed."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One saved state of a workspace."""

    version: int
    session: str
    tenant: str
    root: Entry
    """The workspace's own directory."""
    parent: SnapshotId | None = None
    lineage: Count = 0
    epoch: Count = 0
    at_ms: Count = 0
    """When its tree was read: wall clock of its checkpointer, milliseconds since 1970."""
    position: Count = 0
    """Inbox sequence up to which the session's tasks had their results."""
    task: str = ""
    entries: Count = 0
    content_bytes: Count = 0
    """Content of its files."""
    packs: tuple[PackInfo, ...] = ()
    """All packs that it needs but its own: that one is named by the reference to the snapshot."""
    index: IndexInfo | None = None
    torn: tuple[bytes, ...] = ()
    """Paths that changed while they were read, or could not be: what is here of them is older. The first ones of many."""
    excludes: tuple[str, ...] = ()
    chunker: Chunker = Chunker()
    hot: tuple[HotPath, ...] = ()


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Snapshot).decode


def cut_torn(paths: Sequence[bytes]) -> tuple[bytes, ...]:
    """Return as many paths as a body may name."""
    ends = accumulate(len(path) for path in paths[:TORN_PATHS_MAX])
    return tuple(path for path, end in zip(paths, ends, strict=False) if end <= TORN_BYTES_MAX)


def encode_snapshot(snapshot: Snapshot) -> tuple[bytes, bytes]:
    """Return the body and its id.

    Raises:
        LimitExceeded: it needs more packs, or more bytes, than a reader accepts.
    """
    if len(snapshot.packs) > SNAPSHOT_PACKS_MAX:
        raise LimitExceeded(
            f"snapshot: {len(snapshot.packs)} packs, at most {SNAPSHOT_PACKS_MAX} belong to one"
        )
    body = _encode(snapshot)
    if len(body) > SNAPSHOT_BYTES_MAX:
        raise LimitExceeded(f"snapshot: a body of {len(body)} bytes, at most {SNAPSHOT_BYTES_MAX}")
    return body, make_id(body)


def decode_snapshot(body: bytes | memoryview, wanted: str, where: str) -> Snapshot:
    """Return the snapshot that a body holds.

    Args:
        body: the bytes.
        wanted: its id, hexadecimal, as the record names it.
        where: its pack's key, for an error's text.

    Raises:
        Damaged: it is not the one that was written.
        LimitExceeded: it is larger, or needs more packs, than a reader accepts.
        InvalidMessage: a later version wrote it.
    """
    if len(body) > SNAPSHOT_BYTES_MAX:
        raise LimitExceeded(f"{where}: a body of {len(body)} bytes, at most {SNAPSHOT_BYTES_MAX}")
    if make_id(body).hex() != wanted:
        raise Damaged(f"{where}: the body of snapshot {wanted[:12]} has another hash")
    try:
        snapshot = _decode(body)
    except msgspec.MsgspecError as exc:
        raise Damaged(
            f"{where}: the body of snapshot {wanted[:12]} can not be read: {exc}"
        ) from exc
    if snapshot.version != VERSION:
        raise InvalidMessage(
            f"{where}: snapshot {wanted[:12]} has format {snapshot.version}, this reads {VERSION}"
        )
    packs, entries = len(snapshot.packs), snapshot.entries
    if packs > SNAPSHOT_PACKS_MAX or entries > TREE_ENTRIES_MAX:
        raise LimitExceeded(f"{where}: a snapshot of {packs} packs and {entries} entries")
    if snapshot.root.kind != DIRECTORY or snapshot.root.name:
        raise Damaged(f"{where}: the root of snapshot {wanted[:12]} is no directory")
    return snapshot


def keys_of(snapshot: Snapshot, ref: SnapshotRef) -> set[str]:
    """Return the keys of all that lies in the store for this snapshot: its roots for a collector."""
    keys = {info.key for info in snapshot.packs} | {ref.pack}
    return keys if snapshot.index is None else keys | {snapshot.index.key}
