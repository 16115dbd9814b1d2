"""A snapshot in its store: its body, and where its chunks lie. What was read once is remembered on this node's disk."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Final

import msgspec

from checkpointer.adapters.engine.threads import Bridge
from checkpointer.core.bounds import FOOTER_RAW_BYTES_MAX, ID_BYTES, PACK_BYTES_MAX
from checkpointer.core.frames import BODY, Codec
from checkpointer.core.index import Index
from checkpointer.core.packs import TRAILER, Contents, PackInfo, read_contents, tail_of
from checkpointer.core.snapshot import Snapshot, decode_snapshot
from shared.errors import Damaged, LimitExceeded
from shared.workspace import SnapshotRef

GETS_MAX: Final = 8
"""Reads of the store at once."""
_TAIL_BYTES: Final = 128 * 1024
"""Read of a pack's end at first: mostly all of its footer, and the body."""
_MEMO_BYTES_MAX: Final = 1024 * 1024 * 1024


class Memo(msgspec.Struct):
    """What is known of a session's packs. All of it names its own hash, and packs never change: nothing here can be old."""

    store: str
    tails: dict[str, bytes] = {}
    """Key of a pack -> its footer and trailer."""
    sizes: dict[str, int] = {}
    bodies: dict[str, bytes] = {}
    """Id of a snapshot -> its body."""
    indexes: dict[str, bytes] = {}
    """Key of an index object -> the object."""

    def forget_but(self, snapshot: str, keys: set[str]) -> None:
        """Keep what one snapshot needs."""
        for known in (self.tails, self.sizes, self.indexes):
            for key in known.keys() - keys:
                del known[key]
        for one in self.bodies.keys() - {snapshot}:
            del self.bodies[one]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Memo).decode


def load_memo(file: Path | None, store: str) -> Memo:
    """Return what was remembered; nothing where that is of another store, or can't be read."""
    if file is not None:
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            if file.stat().st_size <= _MEMO_BYTES_MAX:
                memo = _decode(file.read_bytes())
                if memo.store == store:
                    return memo
    return Memo(store)


def save_memo(file: Path | None, memo: Memo) -> None:
    """Remember; without room on the disk, don't."""
    if file is None:
        return
    new = file.with_suffix(".memo-new")
    try:
        fd = os.open(
            new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        with os.fdopen(fd, "wb") as output:
            output.write(_encode(memo))
        new.replace(file)
    except OSError:
        with contextlib.suppress(OSError):
            new.unlink()


class StoredSnapshot:
    """One snapshot as the store has it."""

    def __init__(self, ref: SnapshotRef, bridge: Bridge, memo: Memo) -> None:
        """Name it; nothing is read yet."""
        self.ref = ref
        self._bridge = bridge
        self._memo = memo
        self._codec = Codec()
        self._contents: Contents | None = None

    def body(self) -> Snapshot:
        """Return its body.

        Raises:
            NotFound: its pack is not there.
            Damaged: it is not what was written.
            LimitExceeded, InvalidMessage: see `decode_snapshot`.
            Unavailable: the store.
        """
        ref = self.ref
        known = self._memo.bodies.get(ref.id)
        if known is None or ref.pack not in self._memo.sizes:
            known = self._memo.bodies[ref.id] = self._read_body()
        return decode_snapshot(known, ref.id, ref.pack)

    def _read_body(self) -> bytes:
        """Read the end of its pack, and the body there."""
        pack, get = self.ref.pack, self._bridge.get
        size = self._bridge.size(pack)
        start = max(0, size - _TAIL_BYTES)
        end = get(pack, start)
        tail_bytes = tail_of(end, size, pack)
        if tail_bytes > len(end):
            start = size - tail_bytes
            end = get(pack, start)
        tail = end[len(end) - tail_bytes :]
        contents = self._contents = read_contents(tail, size, self._codec, pack)
        self._memo.tails[pack], self._memo.sizes[pack] = tail, size
        wanted = bytes.fromhex(self.ref.id)
        chunk = 0
        for frame, kind in enumerate(contents.kinds):
            one = contents.ids[chunk * ID_BYTES : (chunk + 1) * ID_BYTES]
            if kind == BODY and one == wanted:
                offset, stored = contents.offsets[frame], contents.stored[frame]
                here = (
                    end[offset - start :][:stored] if offset >= start else get(pack, offset, stored)
                )
                return bytes(self._codec.unpack(here, contents.raw[frame], pack))
            chunk += contents.counts[frame]
        raise Damaged(f"{pack}: snapshot {self.ref.id[:12]} is not in it")

    def own_pack(self) -> PackInfo:
        """Return the pack that holds the body. After `body`."""
        pack = self.ref.pack
        return PackInfo(pack, self._memo.sizes[pack], len(self._memo.tails[pack]))

    def packs(self, body: Snapshot) -> tuple[PackInfo, ...]:
        """Return all its packs, its own last."""
        return (*body.packs, self.own_pack())

    def index(self, body: Snapshot) -> Index:
        """Return where its chunks lie.

        Raises:
            Damaged, NotFound, LimitExceeded, Unavailable: likewise.
        """
        index, covered = Index(), 0
        if body.index is not None:
            key, covered = body.index.key, body.index.covers
            data = self._memo.indexes.get(key)
            if data is None:
                data = self._memo.indexes[key] = self._bridge.get(key)
            index = Index.decode(data, body.index.id, self._codec, key)
            if index.packs != list(body.packs[:covered]):
                raise Damaged(
                    f"{key}: the index is of other packs than snapshot {self.ref.id[:12]}"
                )
        for info, tail in self._tails(self.packs(body)[covered:]):
            index.add(info, read_contents(tail, info.size, self._codec, info.key))
        return index

    def _tails(self, packs: Iterable[PackInfo]) -> Iterator[tuple[PackInfo, bytes]]:
        """Yield each pack and its tail, several reads at once."""
        bridge, tails = self._bridge, self._memo.tails
        waiting: deque[tuple[PackInfo, Future[bytes] | None]] = deque()
        for info in packs:
            future = None
            if info.key not in tails:
                most = FOOTER_RAW_BYTES_MAX + TRAILER.size
                if not TRAILER.size <= info.tail_bytes <= min(most, info.size) <= PACK_BYTES_MAX:
                    raise LimitExceeded(
                        f"{info.key}: a footer of {info.tail_bytes} bytes in {info.size}"
                    )
                future = bridge.start(bridge.store.get(info.key, info.size - info.tail_bytes))
            waiting.append((info, future))
            if len(waiting) > GETS_MAX:
                yield self._arrived(*waiting.popleft())
        while waiting:
            yield self._arrived(*waiting.popleft())

    def _arrived(self, info: PackInfo, future: Future[bytes] | None) -> tuple[PackInfo, bytes]:
        """Return a pack's tail, and remember it."""
        if future is not None:
            self._memo.tails[info.key] = self._bridge.wait(future)
            self._memo.sizes[info.key] = info.size
        return info, self._memo.tails[info.key]
