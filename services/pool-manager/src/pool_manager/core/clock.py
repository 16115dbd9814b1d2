"""The servers' clock, as far as their answers tell it.

A deadline counts from a stream's timestamp, which a server's clock made. Compared with this machine's own clock, a task
would end too early or too late by as much as the two differ.
"""

from __future__ import annotations


class ServerClock:
    """Keeps the difference between the servers' clock and this machine's."""

    def __init__(self) -> None:
        """Take both for the same until a server has told its time."""
        self.offset_ms = 0

    def saw(self, server_ms: int, own_ms: int) -> None:
        """A server told its time just now. It is as old as the answer's way was long, some milliseconds."""
        self.offset_ms = server_ms - own_ms

    def at(self, own_ms: int) -> int:
        """Return the servers' time at a time of this machine, milliseconds since 1970."""
        return own_ms + self.offset_ms
