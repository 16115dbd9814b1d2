"""Server-sent events, line by line."""

from __future__ import annotations

import msgspec

LINE_CHARS_MAX = 4 * 1024 * 1024
"""Longest line that is taken; a result with all it may hold is shorter."""


class ServerEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a stream."""

    id: str
    data: str


class EventReader:
    """Puts lines together to events. One stream's only."""

    def __init__(self) -> None:
        """Begin."""
        self._id = ""
        self._data: list[str] = []

    def take(self, line: str) -> ServerEvent | None:
        """Take a line without its end; return the event that it ends.

        Comments keep a connection alive and mean nothing else.
        """
        if not line:
            data, self._data = self._data, []
            return ServerEvent(id=self._id, data="\n".join(data)) if data else None
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "id" and "\0" not in value:
            self._id = value
        return None
