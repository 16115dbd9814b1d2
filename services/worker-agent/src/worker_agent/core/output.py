"""Bookkeeping of a task's output: offsets, the cap on what is streamed, and the tail that the result keeps."""

from __future__ import annotations

from collections import deque
from typing import Literal

import msgspec

from shared import limits
from shared.files import Stream

StreamName = Literal["stdout", "stderr"]


class Piece(msgspec.Struct, frozen=True):
    """A piece of output to publish."""

    offset: int
    """Bytes of this attempt's output, both streams together, before this piece."""
    stream: StreamName
    data: bytes
    stream_offset: int = 0
    """Bytes of this attempt's output on this stream before this piece."""


class _Tail:
    """The newest bytes of one stream."""

    def __init__(self, keep_bytes: int) -> None:
        self._keep = keep_bytes
        self._pieces: deque[bytes] = deque()
        self._held = 0
        self.size = 0

    def add(self, data: bytes) -> None:
        self.size += len(data)
        self._pieces.append(data)
        self._held += len(data)
        while self._held - len(self._pieces[0]) >= self._keep:
            self._held -= len(self._pieces.popleft())

    def stream(self) -> Stream:
        data = b"".join(self._pieces)[-self._keep :]
        return Stream(
            text=data.decode("utf-8", "replace"), size=self.size, truncated=self.size > len(data)
        )


class OutputBook:
    """Counts one attempt's output and decides what of it is still published."""

    def __init__(
        self,
        *,
        publish_bytes_max: int = limits.OUTPUT_BYTES_MAX,
        keep_bytes: int = limits.RESULT_OUTPUT_BYTES_MAX,
    ) -> None:
        """Start at offset 0.

        Args:
            publish_bytes_max: bytes that are published; what follows is counted, kept in the tail and marked.
            keep_bytes: bytes of each stream's tail that the result keeps.
        """
        self._publish_bytes_max = publish_bytes_max
        self._tails: dict[StreamName, _Tail] = {
            "stdout": _Tail(keep_bytes),
            "stderr": _Tail(keep_bytes),
        }
        self.offset = 0
        self.capped = False
        """Output was dropped from the stream (its tail is still in the result)."""

    def add(self, stream: StreamName, data: bytes) -> tuple[Piece | None, bool]:
        """Take in output; return the piece to publish, and whether the cap was met with this very piece."""
        offset, stream_offset = self.offset, self._tails[stream].size
        self._tails[stream].add(data)
        self.offset += len(data)
        room = self._publish_bytes_max - offset
        if len(data) <= room:
            return Piece(offset, stream, data, stream_offset), False
        first = not self.capped
        self.capped = True
        return (Piece(offset, stream, data[:room], stream_offset) if room > 0 else None), first

    def stdout(self) -> Stream:
        """Return stdout as the result keeps it."""
        return self._tails["stdout"].stream()

    def stderr(self) -> Stream:
        """Return stderr as the result keeps it."""
        return self._tails["stderr"].stream()
