"""Packs: what is uploaded. Magic number and version, frames, a footer that says what is in them, a trailer.

    MAGIC (8) | frame … frame | footer | footer bytes (4) footer raw bytes (4) blake3 of the footer (32) END (8)

Offsets are not stored: a frame begins where the one before it ends. Numbers are little-endian.
"""

from __future__ import annotations

import struct
from io import BytesIO
from itertools import accumulate
from typing import Final

import msgspec

from checkpointer.core.bounds import (
    FOOTER_RAW_BYTES_MAX,
    FRAME_RAW_BYTES_MAX,
    ID_BYTES,
    PACK_BYTES_MAX,
    PACK_CHUNKS_MAX,
    PACK_FRAMES_MAX,
)
from checkpointer.core.frames import BODY, Codec, Frame
from checkpointer.core.ids import make_id
from shared.errors import Damaged, LimitExceeded

MAGIC: Final = b"ASWPACK\x01"
"""The last byte is the version."""
END: Final = b"ASWPEND\x01"
TRAILER: Final = struct.Struct("<II32s8s")


class PackInfo(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A pack, as a snapshot names it."""

    key: str
    """Where it lies in the store."""
    size: int
    """All its bytes."""
    tail_bytes: int
    """Bytes of footer and trailer: one ranged read from the end brings the table of contents."""


class _Footer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The table of contents as stored: columns, since those shrink. The order of the fields is the format."""

    kinds: bytes
    stored: bytes
    raw: bytes
    counts: bytes
    lengths: bytes
    ids: bytes


class Contents(msgspec.Struct, frozen=True, gc=False):
    """What a pack's footer says, checked."""

    kinds: bytes
    """`DATA`, `META` or `BODY`, a byte for each frame."""
    offsets: tuple[int, ...]
    stored: tuple[int, ...]
    raw: tuple[int, ...]
    counts: tuple[int, ...]
    """Chunks in each frame."""
    lengths: tuple[int, ...]
    """Raw bytes of each chunk, frame after frame."""
    ids: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Footer).decode


class PackBuilder:
    """A pack while it is filled."""

    def __init__(self) -> None:
        """Make an empty pack."""
        self._data = BytesIO()
        self._data.write(MAGIC)
        self._kinds = bytearray()
        self._stored: list[int] = []
        self._raw: list[int] = []
        self._counts: list[int] = []
        self._lengths: list[int] = []
        self._ids: list[bytes] = []

    def __bool__(self) -> bool:
        """Return whether it holds anything."""
        return bool(self._kinds)

    @property
    def size(self) -> int:
        """Bytes so far, the footer left out."""
        return self._data.tell()

    def add(self, frame: Frame) -> None:
        """Append a frame."""
        self._data.write(frame.stored)
        self._kinds.append(frame.kind)
        self._stored.append(len(frame.stored))
        self._raw.append(frame.raw_bytes)
        self._counts.append(len(frame.lengths))
        self._lengths.extend(frame.lengths)
        self._ids.append(frame.ids)

    def seal(self, codec: Codec) -> tuple[bytes, int]:
        """Return the pack and its `tail_bytes`. It takes no more frames."""
        footer = _encode(
            _Footer(
                bytes(self._kinds),
                _column(self._stored),
                _column(self._raw),
                _column(self._counts),
                _column(self._lengths),
                b"".join(self._ids),
            )
        )
        stored = codec.compress(footer)
        self._data.write(stored)
        self._data.write(TRAILER.pack(len(stored), len(footer), make_id(stored), END))
        return self._data.getvalue(), len(stored) + TRAILER.size


def _column(numbers: list[int]) -> bytes:
    """Return numbers as 4 bytes each."""
    return struct.pack(f"<{len(numbers)}I", *numbers)


def tail_of(end: bytes | memoryview, size: int, where: str) -> int:
    """Return how many bytes footer and trailer have.

    Args:
        end: at least the pack's last `TRAILER.size` bytes.
        size: bytes of the whole pack.
        where: its key, for an error's text.

    Raises:
        Damaged: this is no end of a pack.
    """
    if len(end) < TRAILER.size or size > PACK_BYTES_MAX:
        raise Damaged(f"{where}: {size} bytes are no pack")
    stored, _, _, mark = TRAILER.unpack(end[-TRAILER.size :])
    if mark != END:
        raise Damaged(f"{where}: its trailer is no trailer of a pack")
    tail: int = stored + TRAILER.size
    if tail + len(MAGIC) > size:
        raise Damaged(f"{where}: its trailer promises a footer of {stored} bytes in {size}")
    return tail


def read_contents(tail: bytes | memoryview, size: int, codec: Codec, where: str) -> Contents:
    """Return what a pack's footer says.

    Args:
        tail: the pack's last bytes, its `tail_bytes` or more.
        size: bytes of the whole pack.
        codec: unpacks the footer.
        where: the pack's key, for an error's text.

    Raises:
        Damaged: hash, magic number or a count is wrong.
        LimitExceeded: it would need more memory than a footer may.
    """
    begin = len(tail) - tail_of(tail, size, where)
    if begin < 0:
        raise Damaged(f"{where}: its footer is longer than was promised")
    stored_bytes, raw_bytes, digest, _ = TRAILER.unpack(tail[-TRAILER.size :])
    stored = tail[begin : begin + stored_bytes]
    if make_id(stored) != digest:
        raise Damaged(f"{where}: its footer has another hash")
    if raw_bytes > FOOTER_RAW_BYTES_MAX:
        raise LimitExceeded(
            f"{where}: a footer of {raw_bytes} bytes, at most {FOOTER_RAW_BYTES_MAX} are unpacked"
        )
    raw = stored if stored_bytes == raw_bytes else codec.inflate(stored, raw_bytes, where)
    try:
        footer = _decode(raw)
    except msgspec.MsgspecError as exc:
        raise Damaged(f"{where}: its footer can not be read: {exc}") from exc
    return _check(footer, size - stored_bytes - TRAILER.size, where)


def _check(footer: _Footer, end: int, where: str) -> Contents:
    """Return the footer's columns as numbers that fit together, and the pack: its frames end at `end`."""
    frames, chunks = len(footer.kinds), len(footer.ids) // ID_BYTES
    if frames > PACK_FRAMES_MAX or chunks > PACK_CHUNKS_MAX:
        raise LimitExceeded(f"{where}: {frames} frames with {chunks} chunks in one pack")
    widths = (len(footer.stored), len(footer.raw), len(footer.counts))
    if widths != (4 * frames,) * 3 or len(footer.lengths) != 4 * chunks:
        raise Damaged(f"{where}: the columns of its footer differ in length")
    stored = _numbers(footer.stored)
    raw = _numbers(footer.raw)
    counts = _numbers(footer.counts)
    lengths = _numbers(footer.lengths)
    offsets = tuple(accumulate(stored, initial=len(MAGIC)))
    if offsets[-1] != end or len(footer.ids) != chunks * ID_BYTES or sum(counts) != chunks:
        raise Damaged(f"{where}: its footer tells of other frames than it has")
    if footer.kinds and max(footer.kinds) > BODY:
        raise Damaged(f"{where}: a frame of unknown kind")
    at = 0
    for count, size in zip(counts, raw, strict=True):
        if size > FRAME_RAW_BYTES_MAX:
            raise LimitExceeded(
                f"{where}: a frame of {size} raw bytes, at most {FRAME_RAW_BYTES_MAX} are unpacked"
            )
        if sum(lengths[at : at + count]) != size:
            raise Damaged(f"{where}: the chunks of a frame do not add up to its {size} bytes")
        at += count
    return Contents(footer.kinds, offsets[:-1], stored, raw, counts, lengths, footer.ids)


def _numbers(column: bytes) -> tuple[int, ...]:
    """Return what `_column` was given."""
    return struct.unpack(f"<{len(column) // 4}I", column)


def check_magic(start: bytes | memoryview, where: str) -> None:
    """Refuse what does not begin like a pack.

    Raises:
        Damaged: it does not.
    """
    if bytes(start[: len(MAGIC)]) != MAGIC:
        raise Damaged(f"{where}: it does not begin like a pack of this version")
