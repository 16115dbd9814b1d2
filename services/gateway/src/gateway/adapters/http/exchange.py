"""One request and its answer, as they go over the wire: a body that comes too slowly ends it, a late one is not awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from litestar.types import Receive, Send

from gateway.adapters.http.answers import ProblemError
from gateway.core.pace import Pace
from gateway.core.problems import problem

LINGER_S = 2.0
"""After an answer that did not wait for the whole body: closing at once would reset the connection, and the answer be lost."""
LINGER_BYTES_MAX = 4 * 1024 * 1024


def has_body(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return whether a request with these headers is followed by a body; their names are in lower case."""
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
        for name, value in headers
    )


class Exchange:
    """The ASGI channels of one HTTP request."""

    def __init__(self, receive: Receive, send: Send, pace: Pace, *, has_body: bool) -> None:
        """Wrap the server's channels."""
        self._receive: Any = receive
        self._send: Any = send
        self._pace = pace
        self._body_is_in = not has_body
        self.has_begun = False
        """Whether some of the answer was sent."""

    async def receive(self) -> Any:
        """Return the next piece of the body; behind it, that the caller is gone.

        Raises:
            ProblemError: it comes too slowly, or its caller is gone before its end, which is no fault of ours.
        """
        if self._body_is_in:
            return await self._receive()
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            async with asyncio.timeout(self._pace.left_s()):
                message: Any = await self._receive()
        except TimeoutError as exc:
            said = f"body: {self._pace.received_bytes} bytes came, and then nothing for too long"
            raise ProblemError(problem(408, "request_timeout", said)) from exc
        if message["type"] == "http.disconnect":
            said = f"body: {self._pace.received_bytes} bytes came, and then its caller was gone"
            raise ProblemError(problem(400, "invalid_message", said))
        self._pace.came(len(message.get("body", b"")), clock() - began)
        self._body_is_in = not message.get("more_body", False)
        return message

    async def send(self, message: Any) -> None:
        """Send a piece of the answer; one that does not wait for the whole body ends the connection, with patience."""
        self.has_begun = True
        if self._body_is_in:
            await self._send(message)
        elif message["type"] == "http.response.start":
            headers = [pair for pair in message.get("headers", ()) if pair[0] != b"connection"]
            await self._send({**message, "headers": [*headers, (b"connection", b"close")]})
        elif message["type"] == "http.response.body" and not message.get("more_body", False):
            await self._send({**message, "more_body": True})
            await self._linger()
            end: Any = {"type": "http.response.body", "body": b"", "more_body": False}
            await self._send(end)
        else:
            await self._send(message)

    async def _linger(self) -> None:
        """Take what is under way, for a moment."""
        taken = 0
        try:
            async with asyncio.timeout(LINGER_S):
                while taken <= LINGER_BYTES_MAX:
                    message: Any = await self._receive()
                    taken += len(message.get("body", b""))
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            pass
