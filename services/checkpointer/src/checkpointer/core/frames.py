"""Frames: runs of neighbouring chunks that are compressed together.

A frame is stored raw where compression does not pay, so its stored and raw lengths are equal then and differ otherwise.
"""

from __future__ import annotations

from typing import Final

import msgspec
import zstandard

from checkpointer.core.bounds import FRAME_RAW_BYTES_MAX, ZSTD_WINDOW_BYTES_MAX
from checkpointer.core.chunks import Cutter
from shared.errors import Damaged, LimitExceeded

LEVEL: Final = 1
MATCH_BYTES_MIN: Final = 7
"""The shortest repetition that is looked for. zstd's own choice at this level and size, 6, costs 7 % more processor time for
packing and 8 % more for unpacking; 28,000 files of a Python project become 1.3 % smaller by it."""
WORTH: Final = 0.95
"""A frame is stored compressed when it shrinks to less than this share."""

DATA: Final = 0
"""`Frame.kind`: chunks of files."""
META: Final = 1
"""`Frame.kind`: nodes of directories and lists, and pieces of large ones."""
BODY: Final = 2
"""`Frame.kind`: a snapshot's body, one chunk."""


_PARAMETERS: Final = zstandard.ZstdCompressionParameters.from_level(
    LEVEL, min_match=MATCH_BYTES_MIN, write_checksum=False
)


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One frame, ready for a pack."""

    kind: int
    stored: bytes
    raw_bytes: int
    ids: bytes
    """Ids of its chunks in order, `ID_BYTES` each."""
    lengths: tuple[int, ...]
    """Raw bytes of each chunk."""


class Codec:
    """Compresses, unpacks and cuts. Each thread needs its own."""

    def __init__(self) -> None:
        """Make a codec."""
        self._compressor = zstandard.ZstdCompressor(compression_params=_PARAMETERS)
        self._decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES_MAX)
        self.cutter = Cutter()

    def seal(self, kind: int, chunks: list[bytes | memoryview], ids: list[bytes]) -> Frame:
        """Return the frame of these chunks, unpacked again and compared.

        Raises:
            Damaged: what was compressed does not unpack to what was given.
        """
        raw = b"".join(chunks)
        lengths = tuple(map(len, chunks))
        stored = self.compress(raw)
        frame = Frame(kind, stored, len(raw), b"".join(ids), lengths)
        if stored is not raw:
            self.check(frame, raw)
        return frame

    def compress(self, raw: bytes) -> bytes:
        """Return `raw` compressed, or `raw` itself where that does not pay: random bytes pass through quickly."""
        packed = self._compressor.compress(raw)
        return packed if len(packed) < len(raw) * WORTH else raw

    def check(self, frame: Frame, raw: bytes) -> None:
        """Unpack a frame that was just made, and compare it with what went in, of which the ids were made.

        Raises:
            Damaged: it is something else.
        """
        if self.unpack(frame.stored, frame.raw_bytes, "a new frame") != raw:
            raise Damaged("a new frame: it does not unpack to what went in")

    def unpack(self, stored: bytes | memoryview, raw_bytes: int, where: str) -> bytes | memoryview:
        """Return a frame's raw bytes.

        Args:
            stored: the frame as it lies in its pack.
            raw_bytes: what the pack's footer promises.
            where: pack and offset, for an error's text.

        Raises:
            Damaged: it does not unpack to so many bytes.
            LimitExceeded: it would need more memory than a frame may; nothing was allocated.
        """
        if raw_bytes > FRAME_RAW_BYTES_MAX:
            raise LimitExceeded(
                f"{where}: a frame of {raw_bytes} raw bytes, at most {FRAME_RAW_BYTES_MAX} are unpacked"
            )
        if len(stored) == raw_bytes:
            return stored
        return self.inflate(stored, raw_bytes, where)

    def inflate(self, stored: bytes | memoryview, raw_bytes: int, where: str) -> bytes:
        """Unpack one zstd frame that says itself that it has `raw_bytes`, which the caller has bounded.

        Raises:
            Damaged: it says or holds something else.
            LimitExceeded: its window is larger than a decoder allows.
        """
        try:
            says = zstandard.get_frame_parameters(stored)
        except zstandard.ZstdError as exc:
            raise Damaged(f"{where}: no zstd frame: {exc}") from exc
        if says.window_size > max(ZSTD_WINDOW_BYTES_MAX, raw_bytes):
            raise LimitExceeded(
                f"{where}: a zstd window of {says.window_size} bytes, at most {ZSTD_WINDOW_BYTES_MAX} are allowed"
            )
        if says.content_size != raw_bytes:
            raise Damaged(
                f"{where}: a zstd frame of {says.content_size} bytes, {raw_bytes} promised"
            )
        try:
            raw = self._decompressor.decompress(stored, allow_extra_data=False)
        except zstandard.ZstdError as exc:
            raise Damaged(f"{where}: its zstd frame is broken: {exc}") from exc
        if len(raw) != raw_bytes:
            raise Damaged(f"{where}: {len(raw)} bytes unpacked, {raw_bytes} promised")
        return raw
