"""A gateway that answers as it is told, for tests of those who ask one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


def problem(status: int, code: str, *, definite: bool = True, more: str = "") -> bytes:
    """Return a whole answer that is a problem."""
    flag = "" if definite else ',"definite":false'
    body = f'{{"type":"u","title":"t","status":{status},"detail":"why","code":"{code}"{flag}}}'
    return (
        f"HTTP/1.1 {status} x\r\ncontent-type: application/problem+json\r\n{more}"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n{body}"
    ).encode()


OK = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\nconnection: close\r\n\r\n"
    b"ok"
)
HANG, BREAK = b"hang", b""


class Gateway:
    """Answers each request with the next of its answers; the last one again and again."""

    def __init__(self, *answers: bytes) -> None:
        """Hear nothing yet."""
        self.answers = list(answers)
        self.heard: list[str] = []
        self.url = ""

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Gateway]:
        """Listen on a free port while inside."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server:
            yield self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heard.append(head.decode())
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer == HANG:
            await reader.read()
        writer.write(answer)
        writer.close()
