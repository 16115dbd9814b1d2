"""What the last snapshot of a session was taken from, on this node's disk: the next one reads only what changed since.

A cache that belongs to anything else (another store, snapshot, boot or disk) would make a snapshot of files that were
never stored. So it names all of these, and is worth nothing unless each of them is right.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import blake3
import msgspec

from checkpointer.core.listings import Listing
from shared.errors import Unavailable

_MAGIC: Final = b"ASWC0001"
_DIGEST_BYTES: Final = 32
_FILE_BYTES_MAX: Final = 2 * 1024 * 1024 * 1024
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class CacheKey(msgspec.Struct, frozen=True, array_like=True):
    """What a cache belongs to."""

    store: str
    """`BlobStore.id`."""
    session: str
    snapshot: str
    boot: str
    """Of the machine: `boot_id()`."""
    device: int
    """Of the workspace's directory."""
    inode: int
    """Likewise."""


class CachedFolder(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One directory as the snapshot holds it."""

    names: bytes
    records: bytes
    """These two are its `Listing`, as `Folder.to_cache` gave it."""
    node: bytes
    """The directory's node, encoded."""
    restored_ns: int = 0
    """Not 0: a restore wrote it, and was done at this time (wall clock); there is no listing yet."""

    @property
    def listing(self) -> Listing:
        """What a new listing is compared with."""
        return Listing(self.names, self.records)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[CacheKey, dict[bytes, CachedFolder]]).decode


def boot_id() -> str:
    """Return the id of this boot of the machine; times and inodes mean nothing beyond it. Empty where there is none."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def load_cache(file: Path, key: CacheKey) -> dict[bytes, CachedFolder]:
    """Return the directories by their paths; none where there is no cache, or one of something else.

    Args:
        file: where it is.
        key: what it must belong to.
    """
    if not key.boot:
        return {}
    try:
        if file.stat().st_size > _FILE_BYTES_MAX:
            return {}
        data = file.read_bytes()
    except OSError:
        return {}
    body = memoryview(data)[len(_MAGIC) + _DIGEST_BYTES :]
    if data[: -len(body)] != _MAGIC + blake3.blake3(body).digest():
        return {}
    try:
        found, folders = _decode(body)
    except msgspec.MsgspecError:
        return {}
    return folders if found == key else {}


def save_cache(file: Path, key: CacheKey, folders: Mapping[bytes, CachedFolder]) -> None:
    """Replace the cache of a session.

    Not made safe against a crash of the machine: another boot has no use for it.

    Raises:
        Unavailable: the disk is full or failed. What was there before is gone then.
    """
    body = _encode((key, folders))
    whole = file.with_suffix(".new")
    try:
        with os.fdopen(os.open(whole, _WRITE, 0o600), "wb") as output:
            output.write(_MAGIC + blake3.blake3(body).digest())
            output.write(body)
        whole.replace(file)
    except OSError as exc:
        drop_cache(file)
        with contextlib.suppress(OSError):
            whole.unlink()
        raise Unavailable(f"cache {file.name}: {exc.strerror or exc}") from exc


def drop_cache(file: Path) -> None:
    """Remove the cache of a session, if there is one."""
    with contextlib.suppress(OSError):
        file.unlink()
