"""Server-sent events, put together from the bytes of a stream."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from shared.errors import OutcomeUnknown

LINE_BYTES_MAX = 4 * 1024 * 1024
"""Longest line that is taken; a result with all it may hold is shorter."""


class ServerEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a stream."""

    id: str
    data: bytes


class EventReader:
    """Puts pieces together to lines, and those to events. One stream's only.

    A line ends with a line feed and with nothing else: JSON may hold whatever Unicode calls the end of a line.
    """

    def __init__(self) -> None:
        """Begin."""
        self._id = ""
        self._data: list[bytes] = []
        self._line: list[bytes] = []
        self._held_bytes = 0

    def take(self, piece: bytes) -> Iterator[ServerEvent]:
        """Take what came and yield the events that it ends.

        Comments keep a connection alive and mean nothing else.

        Raises:
            OutcomeUnknown: an event is longer than any: this is no stream of a gateway.
        """
        *ends, rest = piece.split(b"\n")
        for end in ends:
            line = b"".join([*self._line, end]).removesuffix(b"\r")
            self._line = []
            if line:
                self._field(line)
                continue
            data, self._data, self._held_bytes = self._data, [], 0
            if data:
                yield ServerEvent(id=self._id, data=b"\n".join(data))
        self._line.append(rest)
        self._held_bytes += len(rest)
        if self._held_bytes > LINE_BYTES_MAX:
            raise OutcomeUnknown(f"stream: an event of more than {LINE_BYTES_MAX} bytes")

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._held_bytes = sum(map(len, self._data))
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode(errors="replace")
