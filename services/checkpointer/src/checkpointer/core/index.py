"""Where each chunk lies: built from packs' footers, or read from one index object that covers many packs.

Two million chunks must fit into memory, so the part that comes from an index object stays in its columns: sorted ids, a
table of where each two-byte prefix begins, and three columns of numbers. What footers add is a dict.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from checkpointer.core.bounds import (
    FRAME_RAW_BYTES_MAX,
    ID_BYTES,
    INDEX_RAW_BYTES_MAX,
    SNAPSHOT_PACKS_MAX,
)
from checkpointer.core.frames import BODY, Codec
from checkpointer.core.ids import make_id
from checkpointer.core.packs import Contents, PackInfo
from shared.errors import Damaged, LimitExceeded

INDEX_MAGIC: Final = b"ASWINDX\x01"
_HEAD: Final = struct.Struct("<8sII")


class Place(NamedTuple):
    """Where a chunk lies."""

    frame: int
    """Number of the frame in the index."""
    at: int
    """Offset in the frame's raw bytes."""
    length: int


class FrameInfo(NamedTuple):
    """Where a frame lies."""

    pack: int
    """Number of the pack in the index."""
    offset: int
    stored_bytes: int
    raw_bytes: int
    kind: int


class _Stored(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An index object's columns. The order of the fields is the format."""

    packs: list[PackInfo]
    frame_packs: bytes
    offsets: bytes
    stored: bytes
    raw: bytes
    kinds: bytes
    ids: bytes
    frames: bytes
    ats: bytes
    lengths: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Stored).decode


class Index:
    """Where the chunks of a snapshot lie."""

    def __init__(self) -> None:
        """Make an empty index."""
        self.packs: list[PackInfo] = []
        self._frame_packs = array("I")
        self._offsets = array("I")
        self._stored = array("I")
        self._raw = array("I")
        self._kinds = bytearray()
        self._added: dict[bytes, Place] = {}
        self._ids = b""
        self._starts = array("I", bytes(4 * 65_537))
        self._frames = array("I")
        self._ats = array("I")
        self._lengths = array("I")

    def __len__(self) -> int:
        """Return how many chunks it knows."""
        return len(self._added) + len(self._frames)

    def __contains__(self, one: bytes) -> bool:
        """Return whether it knows this chunk."""
        return one in self._added or self._row(one) >= 0

    def find(self, one: bytes) -> Place | None:
        """Return where a chunk lies; None: it is unknown."""
        place = self._added.get(one)
        if place is not None:
            return place
        row = self._row(one)
        return None if row < 0 else Place(self._frames[row], self._ats[row], self._lengths[row])

    @property
    def frames(self) -> int:
        """How many frames it knows; their numbers begin with 0."""
        return len(self._frame_packs)

    def frame(self, number: int) -> FrameInfo:
        """Return where a frame lies."""
        return FrameInfo(
            self._frame_packs[number],
            self._offsets[number],
            self._stored[number],
            self._raw[number],
            self._kinds[number],
        )

    def places(self) -> Iterator[tuple[bytes, Place]]:
        """Yield each chunk and where it lies."""
        yield from self._added.items()
        for row in range(len(self._frames)):
            place = Place(self._frames[row], self._ats[row], self._lengths[row])
            yield self._ids[row * ID_BYTES : (row + 1) * ID_BYTES], place

    def add(self, info: PackInfo, contents: Contents) -> int:
        """Learn what a pack holds; return the pack's number. A chunk that is known stays where it was found first."""
        pack = len(self.packs)
        self.packs.append(info)
        first = len(self._frame_packs)
        self._frame_packs.extend([pack] * len(contents.kinds))
        self._offsets.extend(contents.offsets)
        self._stored.extend(contents.stored)
        self._raw.extend(contents.raw)
        self._kinds += contents.kinds
        number, ids, lengths, added = 0, contents.ids, contents.lengths, self._added
        for frame, count in enumerate(contents.counts, start=first):
            at = 0
            for length in lengths[number : number + count]:
                begin = number * ID_BYTES
                added.setdefault(ids[begin : begin + ID_BYTES], Place(frame, at, length))
                at += length
                number += 1
        return pack

    def without(self, packs: set[int]) -> Index:
        """Return an index of the other packs."""
        kept = Index()
        kept.packs = [info for number, info in enumerate(self.packs) if number not in packs]
        pack_numbers, frame_numbers = dict[int, int](), dict[int, int]()
        for number in range(len(self.packs)):
            if number not in packs:
                pack_numbers[number] = len(pack_numbers)
        for number in range(self.frames):
            info = self.frame(number)
            if info.pack in pack_numbers:
                frame_numbers[number] = len(frame_numbers)
                kept._frame_packs.append(pack_numbers[info.pack])
                kept._offsets.append(info.offset)
                kept._stored.append(info.stored_bytes)
                kept._raw.append(info.raw_bytes)
                kept._kinds.append(info.kind)
        for one, place in self.places():
            frame = frame_numbers.get(place.frame)
            if frame is not None:
                kept._added[one] = Place(frame, place.at, place.length)
        return kept

    def _row(self, one: bytes) -> int:
        """Return the row of a chunk in the sorted columns; -1: it is not there."""
        prefix = one[0] << 8 | one[1]
        begin, end = self._starts[prefix] * ID_BYTES, self._starts[prefix + 1] * ID_BYTES
        while True:
            found = self._ids.find(one, begin, end)
            if found < 0 or not found % ID_BYTES:
                return found // ID_BYTES if found >= 0 else -1
            begin = found + 1

    def encode(self, codec: Codec) -> tuple[bytes, bytes]:
        """Return the index object and its id: all that is known now."""
        rows = sorted(self.places())
        stored = _Stored(
            self.packs,
            _bytes(self._frame_packs),
            _bytes(self._offsets),
            _bytes(self._stored),
            _bytes(self._raw),
            bytes(self._kinds),
            b"".join([one for one, _ in rows]),
            _bytes(array("I", [place.frame for _, place in rows])),
            _bytes(array("I", [place.at for _, place in rows])),
            _bytes(array("I", [place.length for _, place in rows])),
        )
        raw = _encode(stored)
        packed = codec.compress(raw)
        data = _HEAD.pack(INDEX_MAGIC, len(packed), len(raw)) + packed
        return data, make_id(data)

    @classmethod
    def decode(cls, data: bytes, wanted: bytes, codec: Codec, where: str) -> Index:
        """Return the index that an object holds.

        Args:
            data: the object.
            wanted: its id, as the snapshot names it.
            codec: unpacks it.
            where: its key, for an error's text.

        Raises:
            Damaged: it is not the object that was written.
            LimitExceeded: it would need more memory than an index may.
        """
        if make_id(data) != wanted:
            raise Damaged(f"{where}: the index has another hash")
        if len(data) < _HEAD.size:
            raise Damaged(f"{where}: {len(data)} bytes are no index")
        magic, stored_bytes, raw_bytes = _HEAD.unpack_from(data)
        if magic != INDEX_MAGIC or stored_bytes != len(data) - _HEAD.size:
            raise Damaged(f"{where}: it does not begin like an index of this version")
        if raw_bytes > INDEX_RAW_BYTES_MAX:
            raise LimitExceeded(
                f"{where}: an index of {raw_bytes} bytes, at most {INDEX_RAW_BYTES_MAX} are unpacked"
            )
        packed = memoryview(data)[_HEAD.size :]
        raw = packed if stored_bytes == raw_bytes else codec.inflate(packed, raw_bytes, where)
        try:
            stored = _decode(raw)
        except msgspec.MsgspecError as exc:
            raise Damaged(f"{where}: the index can not be read: {exc}") from exc
        return cls._load(stored, where)

    @classmethod
    def _load(cls, stored: _Stored, where: str) -> Index:
        """Return the index of these columns, checked."""
        index = cls()
        index.packs = list(stored.packs)
        index._frame_packs = _array(stored.frame_packs, where)
        index._offsets = _array(stored.offsets, where)
        index._stored = _array(stored.stored, where)
        index._raw = _array(stored.raw, where)
        index._kinds = bytearray(stored.kinds)
        index._ids = stored.ids
        index._frames = _array(stored.frames, where)
        index._ats = _array(stored.ats, where)
        index._lengths = _array(stored.lengths, where)
        index._check(where)
        counts = [0] * 65_537
        for high, low in zip(stored.ids[::ID_BYTES], stored.ids[1::ID_BYTES], strict=True):
            counts[(high << 8 | low) + 1] += 1
        total = 0
        for prefix, count in enumerate(counts):
            total += count
            index._starts[prefix] = total
        return index

    def _check(self, where: str) -> None:
        """Refuse columns that do not fit together, or point out of what they describe."""
        frames, chunks = len(self._frame_packs), len(self._frames)
        same = {len(self._offsets), len(self._stored), len(self._raw), len(self._kinds)} == {frames}
        if not same or {len(self._ats), len(self._lengths)} != {chunks}:
            raise Damaged(f"{where}: the columns of the index differ in length")
        if len(self._ids) != chunks * ID_BYTES or len(self.packs) > SNAPSHOT_PACKS_MAX:
            raise Damaged(f"{where}: {chunks} chunks, and {len(self._ids)} bytes of their ids")
        if frames and (
            max(self._frame_packs) >= len(self.packs)
            or max(self._kinds) > BODY
            or max(self._raw) > FRAME_RAW_BYTES_MAX
        ):
            raise Damaged(f"{where}: the index names a pack or a frame that can not be")
        if chunks and max(self._frames) >= frames:
            raise Damaged(
                f"{where}: the index places a chunk in frame {max(self._frames)} of {frames}"
            )


def _bytes(column: array[int]) -> bytes:
    """Return a column as little-endian numbers of 4 bytes."""
    if sys.byteorder == "big":
        column = array("I", column)
        column.byteswap()
    return column.tobytes()


def _array(column: bytes, where: str) -> array[int]:
    """Return what `_bytes` was given."""
    if len(column) % 4:
        raise Damaged(f"{where}: a column of {len(column)} bytes in the index")
    numbers = array("I", column)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
