"""One of the two sockets that an edge has for each client; what one can not take holds the other."""

from __future__ import annotations

import asyncio

CLOSE_S = 2.0
"""What was said last gets so long to arrive."""


class Side(asyncio.Protocol):
    """One of the two sockets."""

    def __init__(self) -> None:
        """Have no socket and no other side yet."""
        self.transport: asyncio.Transport | None = None
        self.peer: Side | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Have a socket."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def pause_writing(self) -> None:
        """Take nothing from the other side for now."""
        if self.peer is not None and self.peer.transport is not None:
            self.peer.transport.pause_reading()

    def resume_writing(self) -> None:
        """Take from it again."""
        if self.peer is not None and self.peer.transport is not None:
            self.peer.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the other side, too."""
        if self.peer is not None:
            self.peer.end()

    def end(self) -> None:
        """Close once what is queued is sent, at the latest in CLOSE_S."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()
            asyncio.get_running_loop().call_later(CLOSE_S, self.transport.abort)

    def abort(self) -> None:
        """Close at once."""
        if self.transport is not None:
            self.transport.abort()
