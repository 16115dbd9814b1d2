"""What a server says until it knows the client: who it is, then lines up to its first PONG.

The servers answer in order, so that PONG says that the credential of the CONNECT before it is good: nobody can be counted
as another tenant's client. Libraries take the first line after their CONNECT and PING for the answer, so it must stay
the first; only where the PING was the edge's own is its answer kept back.
"""

from __future__ import annotations

from shared.errors import InvalidMessage

HEAD_BYTES_MAX = 32 * 1024
_END = b"\r\n"


class Greeting:
    """One connection's beginning."""

    def __init__(self) -> None:
        """Begin with nothing said."""
        self._rest = bytearray()
        self.info: bytes | None = None
        """The server's first line."""
        self.known = False
        """Whether the server has taken the client's credential: what it says from here on is no greeting."""

    def feed(self, data: bytes, *, own_ping: bool) -> bytes:
        """Return what the client is to get.

        Args:
            data: came from the server.
            own_ping: the first PING was the edge's own.

        Raises:
            InvalidMessage: that is no server.
        """
        rest, passed = self._rest, bytearray()
        rest += data
        while not self.known and (end := rest.find(_END)) >= 0:
            line = bytes(rest[:end])
            del rest[: end + len(_END)]
            if self.info is not None and line.upper() == b"PONG":
                self.known = True
                passed += rest if own_ping else line + _END + rest
                rest.clear()
                break
            if self.info is None:
                self.info = line
            passed += line + _END
        if len(rest) > HEAD_BYTES_MAX:
            raise InvalidMessage("a line without an end")
        return bytes(passed)
